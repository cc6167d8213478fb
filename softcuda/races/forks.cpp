#include "forks.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "checker.h"

namespace softcuda {

bool may_be_forked()
{
    for (size_t i = 0; i < allocation_count(); ++i)
        if (const Allocation& array = allocation_number(i); array.live && array.shared)
            return false;
    return true;
}

bool begin_fork(Fork& made)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return false;
    const pid_t process = fork();
    made = {process, ends[process == 0 ? 1 : 0]};
    ::close(ends[process == 0 ? 0 : 1]);
    return process == 0;
}

void print_nothing()
{
    for (const int to : {STDOUT_FILENO, STDERR_FILENO})
        dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), to);
}

void end_fork(Fork& made)
{
    if (made.id > 0) {
        kill(made.id, SIGKILL);
        waitpid(made.id, nullptr, 0);
    }
    if (made.socket >= 0)
        ::close(made.socket);
    made = {};
}

bool send_all(int to, const void* data, size_t size)
{
    const char* bytes = static_cast<const char*>(data);
    for (size_t done = 0; done < size;) {
        const ssize_t sent = ::send(to, bytes + done, size - done, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        done += size_t(sent);
    }
    return true;
}

bool receive_all(int from, void* data, size_t size, ForkClock::time_point end)
{
    char* bytes = static_cast<char*>(data);
    for (size_t done = 0; done < size;) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - ForkClock::now()).count();
        pollfd answer {from, POLLIN, 0};
        if (poll(&answer, 1, int(std::max<long>(left, 0))) != 1)
            return false;
        const ssize_t got = ::recv(from, bytes + done, size - done, 0);
        if (got <= 0)
            return false;
        done += size_t(got);
    }
    return true;
}

uint64_t sum_of(uintptr_t address, size_t size, uint64_t sum)
{
    const char* bytes = reinterpret_cast<const char*>(address);
    uint64_t word = 0;
    for (; size; bytes += sizeof word, size -= std::min(size, sizeof word)) {
        word = 0;
        memcpy(&word, bytes, std::min(size, sizeof word));
        sum = (sum ^ word) * 1099511628211ull;
        sum ^= sum >> 29;
    }
    return sum;
}

} // namespace softcuda

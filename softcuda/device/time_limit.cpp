// Ends kernels that never end, and turns the signals of one that goes wrong into an error of its launch.
//
// The limit is of processor time, so that a busy machine ends no kernel that would have ended by itself. A kernel that
// waits for something else, such as a full pipe behind printf, is ended after ten times the limit by the clock.
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "executor.h"

namespace softcuda {
namespace {

using Clock = std::chrono::steady_clock;
const int watch_signal = SIGRTMIN + 7;
constexpr size_t emergency_bytes = 256 * 1024;

struct Watch {
    std::mutex mutex;
    std::condition_variable changed;
    bool watching = false, started = false;
    Clock::time_point deadline; // by the clock, whatever the kernel has used
    double used_before = 0;     // processor seconds of the thread when the launch began
    pthread_t thread {};
    const Module* module = nullptr;
    char* emergency_stack = nullptr;
    struct sigaction before[NSIG];
    // What the handler saw.
    int signal = 0;
    uintptr_t pc = 0, address = 0;
    double seconds = 0;
};
std::atomic<bool> time_is_over {false}; // of the present launch

Watch& watch()
{
    static Watch* only = new Watch; // never destroyed: a thread waits on it when the process ends
    return *only;
}

std::string endless(uintptr_t pc)
{
    char limit[64];
    snprintf(limit, sizeof limit, "%g s", watch().seconds);
    return "endless kernel " + in_kernel() + "\n  " + where(pc) + ": " + who(running.thread)
        + " was running when the launch limit of " + limit + " was over";
}

// Runs on a stack of its own, in place of the thread that a signal ended.
[[noreturn]] void land_on_time_limit()
{
    Watch& w = watch();
    if (w.signal == watch_signal && has_findings())
        end_launch();
    if (w.signal == watch_signal)
        fault(launch_timeout, endless(w.pc + 1));
    const std::string place = in_kernel() + "\n  " + where(w.pc + 1) + ": " + who(running.thread);
    if (is_below_a_stack(w.address))
        fault(stack_error, "stack overrun " + place + " needs more than the 256 KiB of its stack");
    if (w.signal == SIGFPE)
        fault(illegal_instruction, "integer division by zero " + place + " divides");
    char address[32];
    snprintf(address, sizeof address, "0x%lx", (unsigned long)w.address);
    fault(w.signal == SIGILL ? illegal_instruction : illegal_address,
        "out of bounds " + place + " touches " + address + ", where there is no array");
}

uintptr_t* program_counter(ucontext_t* context, uintptr_t** stack_pointer)
{
#if defined(__x86_64__)
    *stack_pointer = reinterpret_cast<uintptr_t*>(&context->uc_mcontext.gregs[REG_RSP]);
    return reinterpret_cast<uintptr_t*>(&context->uc_mcontext.gregs[REG_RIP]);
#else
    *stack_pointer = reinterpret_cast<uintptr_t*>(&context->uc_mcontext.sp);
    return reinterpret_cast<uintptr_t*>(&context->uc_mcontext.pc);
#endif
}

void handle(int signal, siginfo_t* info, void* raw)
{
    Watch& w = watch();
    uintptr_t* stack_pointer;
    uintptr_t* pc = program_counter(static_cast<ucontext_t*>(raw), &stack_pointer);
    const bool ours = w.watching && pthread_equal(pthread_self(), w.thread);
    const bool in_kernel_text = ours && *pc >= w.module->text_first && *pc < w.module->text_last;
    const StackRange stacks = thread_stacks();
    // A frame that is being made touches its memory up to a page above the stack pointer.
    const bool on_thread_stack = ours && *stack_pointer + 4096 - stacks.first < stacks.size;
    if (signal == watch_signal && !in_kernel_text)
        return; // inside printf or the checker; the next signal comes soon
    if (!on_thread_stack) { // not a kernel's: as if we had never been here
        sigaction(signal, &w.before[signal], nullptr);
        return;
    }
    w.signal = signal;
    w.pc = *pc;
    w.address = signal == watch_signal ? 0 : reinterpret_cast<uintptr_t>(info->si_addr);
    *pc = reinterpret_cast<uintptr_t>(&land_on_time_limit);
    *stack_pointer = reinterpret_cast<uintptr_t>(w.emergency_stack) + emergency_bytes - 256 - 8;
}

Clock::duration of(double seconds)
{
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::min(seconds, 1e8)));
}

double processor_seconds(pthread_t thread)
{
    clockid_t clock;
    timespec used {};
    if (pthread_getcpuclockid(thread, &clock) == 0)
        clock_gettime(clock, &used);
    return double(used.tv_sec) + 1e-9 * double(used.tv_nsec);
}

// When the present launch may be over at the earliest: it cannot use processor time faster than the clock runs.
Clock::time_point next_look(const Watch& w)
{
    const double left = w.seconds - (processor_seconds(w.thread) - w.used_before);
    return left <= 0 ? Clock::now() : std::min(w.deadline, Clock::now() + of(left));
}

void run_watcher()
{
    Watch& w = watch();
    std::unique_lock<std::mutex> lock(w.mutex);
    for (;;) {
        if (!w.watching) {
            w.changed.wait(lock);
        } else if (const auto next = next_look(w); Clock::now() < next) {
            w.changed.wait_until(lock, next);
        } else {
            time_is_over = true;
            pthread_kill(w.thread, watch_signal);
            w.changed.wait_for(lock, std::chrono::milliseconds(2));
        }
    }
}

void start()
{
    Watch& w = watch();
    void* memory = mmap(nullptr, emergency_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    w.emergency_stack = static_cast<char*>(memory);
    struct sigaction action {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART; // or a printf, or what asks for a line, ends half done
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, watch_signal})
        sigaction(signal, &action, &w.before[signal]);
    std::thread(run_watcher).detach();
    w.started = true;
}

// A handler needs a stack of its own, because the thread's may be what has run out.
void give_signal_stack()
{
    static thread_local char* stack = nullptr;
    if (stack)
        return;
    stack = new char[64 * 1024];
    stack_t description {};
    description.ss_sp = stack;
    description.ss_size = 64 * 1024;
    sigaltstack(&description, nullptr);
}

} // namespace

void watch_begin(const Function& function)
{
    Watch& w = watch();
    std::lock_guard<std::mutex> lock(w.mutex);
    if (!w.started)
        start();
    give_signal_stack();
    const char* limit = getenv("SOFTCUDA_LAUNCH_SECONDS");
    w.seconds = limit && *limit ? atof(limit) : 1e9;
    w.deadline = Clock::now() + of(10 * w.seconds);
    w.thread = pthread_self();
    w.used_before = processor_seconds(w.thread);
    w.module = function.module;
    time_is_over = false;
    w.watching = true;
    w.changed.notify_all();
}

void watch_end()
{
    Watch& w = watch();
    std::lock_guard<std::mutex> lock(w.mutex);
    w.watching = false;
    w.changed.notify_all();
}

void stop_within(double seconds)
{
    Watch& w = watch();
    std::lock_guard<std::mutex> lock(w.mutex);
    w.deadline = std::min(w.deadline, Clock::now() + of(seconds));
    w.changed.notify_all();
}

void stop_if_time_is_over(uintptr_t site)
{
    if (time_is_over && has_findings())
        end_launch();
    if (time_is_over)
        fault(launch_timeout, endless(site));
}

void stop_running_kernel()
{
    Watch& w = watch();
    std::lock_guard<std::mutex> lock(w.mutex);
    w.deadline = Clock::now();
    w.changed.notify_all();
}

} // namespace softcuda

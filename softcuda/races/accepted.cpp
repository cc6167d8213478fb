// Findings that a kernel's developer accepts: SOFTCUDA_ACCEPT has a line for each, its kind, kernel and "file:line" with
// tabs between. They end no launch, and a client asks which of them there were.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>

#include "device/internal.h"

namespace softcuda {
namespace {

std::mutex& guard = *new std::mutex;
std::set<std::string>& there_were = *new std::set<std::string>;

bool ends_with(const std::string& text, const std::string& tail)
{
    return text.size() >= tail.size() && text.compare(text.size() - tail.size(), tail.size(), tail) == 0;
}

// Whether a line of a finding is of a place, whose path may be the end of a longer one.
bool is_at(const std::string& line, const std::string& place)
{
    const std::string here = line.substr(0, std::min(line.find(": "), line.find(" (called at ")));
    return here == place || ends_with(here, "/" + place);
}

bool is_part_of_name(char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)); }

// Whether a text names a kernel, whose name stands there alone or, with its length, in that of a C++ symbol.
bool names_kernel(const std::string& text, const std::string& kernel)
{
    const std::string length = std::to_string(kernel.size());
    for (size_t at = text.find(kernel); at != std::string::npos; at = text.find(kernel, at + 1)) {
        size_t digits = at;
        while (digits && std::isdigit(static_cast<unsigned char>(text[digits - 1])))
            --digits;
        const size_t end = at + kernel.size();
        const bool begins = !at || !is_part_of_name(text[at - 1]), ends = end == text.size() || !is_part_of_name(text[end]);
        if ((begins && ends) || (text.find("_Z") < digits && text.compare(digits, at - digits, length) == 0))
            return true;
    }
    return false;
}

bool is_of(const std::string& finding, const std::string& kind, const std::string& kernel, const std::string& place)
{
    const std::string head = finding.substr(0, finding.find('\n'));
    const size_t in = head.rfind(" in ");
    if (head.compare(0, kind.size(), kind) || head.size() == kind.size() || head[kind.size()] != ' '
        || in == std::string::npos || !names_kernel(head.substr(in + 4), kernel))
        return false;
    for (size_t at = finding.find("\n  "); at != std::string::npos; at = finding.find("\n  ", at + 1))
        if (is_at(finding.substr(at + 3, finding.find('\n', at + 1) - at - 3), place))
            return true;
    return false;
}

} // namespace

bool is_accepted(const std::string& finding)
{
    const char* given = getenv("SOFTCUDA_ACCEPT");
    if (!given || !*given)
        return false;
    const std::string rules = std::string(given) + "\n";
    for (size_t begin = 0, end; (end = rules.find('\n', begin)) != std::string::npos; begin = end + 1) {
        const std::string rule = rules.substr(begin, end - begin);
        const size_t first = rule.find('\t'), second = rule.find('\t', first + 1);
        if (second == std::string::npos
            || !is_of(finding, rule.substr(0, first), rule.substr(first + 1, second - first - 1), rule.substr(second + 1)))
            continue;
        std::lock_guard<std::mutex> lock(guard);
        there_were.insert(rule);
        return true;
    }
    return false;
}

} // namespace softcuda

// The lines of SOFTCUDA_ACCEPT that findings were accepted by since it was asked last.
extern "C" EXPORT const char* softcuda_accepted()
{
    using namespace softcuda;
    static std::string& text = *new std::string;
    std::lock_guard<std::mutex> lock(guard);
    text.clear();
    for (const std::string& rule : there_were)
        text += (text.empty() ? "" : "\n") + rule;
    there_were.clear();
    return text.c_str();
}

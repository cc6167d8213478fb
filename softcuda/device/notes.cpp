// What a launch shows that is no fault: it is kept until the host asks for it.
#include <algorithm>

#include "device/internal.h"

namespace softcuda {
namespace {

constexpr size_t most_notes_kept = 16;
std::vector<std::string> (&kept_notes)[2] = *new std::vector<std::string>[1][2];

const char* given(Note kind)
{
    static std::string (&texts)[2] = *new std::string[1][2];
    std::string& text = texts[int(kind)];
    text.clear();
    for (const std::string& each : kept_notes[int(kind)])
        text += each + '\0';
    kept_notes[int(kind)].clear();
    return text.c_str();
}

} // namespace

void add_note(Note kind, const std::string& text)
{
    std::vector<std::string>& notes = kept_notes[int(kind)];
    if (notes.size() < most_notes_kept && std::find(notes.begin(), notes.end(), text) == notes.end())
        notes.push_back(text);
}

} // namespace softcuda

// Texts that each end in a zero, and one that is empty.
extern "C" EXPORT const char* softcuda_remarks() { return softcuda::given(softcuda::Note::remark); }
extern "C" EXPORT const char* softcuda_likely_causes() { return softcuda::given(softcuda::Note::cause); }

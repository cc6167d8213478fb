// The same for a piece of an array of the host, by words of 8 bytes, which takes half the time here. Every piece
// but the last has an even number of words; first: words before it.
#include <cstddef>
#include <cstring>

#include "digest.h"

extern "C" void digest(const unsigned* words, size_t count, size_t first, unsigned long long* sum)
{
    unsigned long long own = 0, word;
    for (size_t i = 0; i < count / 2; ++i) {
        memcpy(&word, words + 2 * i, 8); // words of 4 bytes may lie off 8
        own += mixed(word, first / 2 + i);
    }
    *sum = own + (count % 2 ? mixed(words[count - 1], first + count) : 0);
}

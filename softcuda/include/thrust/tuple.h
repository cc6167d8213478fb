// Thrust's tuples, as kernels use them: they are C++'s own.
#pragma once

#include <tuple>

#include "pair.h"

namespace thrust {
using std::get; // of tuples, beside that of pairs
using std::make_tuple;
using std::tie;
using std::tuple;
using std::tuple_element;
using std::tuple_size;
} // namespace thrust

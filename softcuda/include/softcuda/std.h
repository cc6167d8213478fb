// cuda::std is the C++ library of g++, as far as that is included: a header of cuda/std includes the one of its name.
#pragma once

namespace std { }
namespace cuda {
namespace std {
using namespace ::std;
}
} // namespace cuda

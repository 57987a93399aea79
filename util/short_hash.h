// XXH3 (https://xxhash.com) for short inputs, inlined. Include it in .cc files only.

#pragma once

#define XXH_INLINE_ALL
#ifdef __AVX512F__
#define XXH_VECTOR 2  // AVX2: what is hashed is short, and GCC 12 warns of its own AVX-512 header
#endif
#include <xxhash.h>

// Compiled for the plainest x86-64 or arm64 whatever the rest is compiled for, and without sanitizers, which are not
// awake yet. Nothing here may call what the rest has compiled: the C library only, no C++ one, no inline function of a
// shared header.

#include "util/processor_check.h"

#if defined(__x86_64__) || defined(__aarch64__)

#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#else
#include <sys/auxv.h>
#endif

namespace {

// One line, written at once. What does not fit is cut.
struct Line {
  char text[1024];
  size_t size = 0;

  void Add(const char* more) {
    const size_t length = strlen(more);
    const size_t room = sizeof(text) - 1 - size;
    memcpy(text + size, more, length < room ? length : room);
    size += length < room ? length : room;
  }
};

#if defined(__x86_64__)

enum Register { kEax, kEbx, kEcx, kEdx };

// The registers that the operating system must save for a feature to be usable.
enum State { kNoState, kAvxState, kAvx512State };

struct Feature {
  const char* name;
  bool needed;  // by the -march that the library was compiled with; ../Processor.cmake defines CAIRN_NEEDS_...
  int level;    // of x86-64-v2, v3 or v4, which it came with; 0: of none
  unsigned leaf, subleaf;
  Register reg;
  int bit;
  State state;
};

// Intel SDM volume 2, CPUID; AMD APM volume 3, appendix E. Only what a compiler uses unasked, or what RocksDB uses when
// the compiler offers it.
constexpr Feature kFeatures[] = {
    {"SSE3", CAIRN_NEEDS_SSE3, 2, 1, 0, kEcx, 0, kNoState},
    {"SSSE3", CAIRN_NEEDS_SSSE3, 2, 1, 0, kEcx, 9, kNoState},
    {"SSE4.1", CAIRN_NEEDS_SSE4_1, 2, 1, 0, kEcx, 19, kNoState},
    {"SSE4.2", CAIRN_NEEDS_SSE4_2, 2, 1, 0, kEcx, 20, kNoState},
    {"POPCNT", CAIRN_NEEDS_POPCNT, 2, 1, 0, kEcx, 23, kNoState},
    {"CMPXCHG16B", CAIRN_NEEDS_CX16, 2, 1, 0, kEcx, 13, kNoState},
    {"LAHF", CAIRN_NEEDS_SAHF, 2, 0x80000001, 0, kEcx, 0, kNoState},
    {"AVX", CAIRN_NEEDS_AVX, 3, 1, 0, kEcx, 28, kAvxState},
    {"F16C", CAIRN_NEEDS_F16C, 3, 1, 0, kEcx, 29, kAvxState},
    {"FMA", CAIRN_NEEDS_FMA, 3, 1, 0, kEcx, 12, kAvxState},
    {"MOVBE", CAIRN_NEEDS_MOVBE, 3, 1, 0, kEcx, 22, kNoState},
    {"LZCNT", CAIRN_NEEDS_LZCNT, 3, 0x80000001, 0, kEcx, 5, kNoState},
    {"BMI1", CAIRN_NEEDS_BMI, 3, 7, 0, kEbx, 3, kNoState},
    {"AVX2", CAIRN_NEEDS_AVX2, 3, 7, 0, kEbx, 5, kAvxState},
    {"BMI2", CAIRN_NEEDS_BMI2, 3, 7, 0, kEbx, 8, kNoState},
    {"AVX512F", CAIRN_NEEDS_AVX512F, 4, 7, 0, kEbx, 16, kAvx512State},
    {"AVX512DQ", CAIRN_NEEDS_AVX512DQ, 4, 7, 0, kEbx, 17, kAvx512State},
    {"AVX512CD", CAIRN_NEEDS_AVX512CD, 4, 7, 0, kEbx, 28, kAvx512State},
    {"AVX512BW", CAIRN_NEEDS_AVX512BW, 4, 7, 0, kEbx, 30, kAvx512State},
    {"AVX512VL", CAIRN_NEEDS_AVX512VL, 4, 7, 0, kEbx, 31, kAvx512State},
    {"AVX512IFMA", CAIRN_NEEDS_AVX512IFMA, 0, 7, 0, kEbx, 21, kAvx512State},
    {"AVX512VBMI", CAIRN_NEEDS_AVX512VBMI, 0, 7, 0, kEcx, 1, kAvx512State},
    {"AVX512VBMI2", CAIRN_NEEDS_AVX512VBMI2, 0, 7, 0, kEcx, 6, kAvx512State},
    {"AVX512VNNI", CAIRN_NEEDS_AVX512VNNI, 0, 7, 0, kEcx, 11, kAvx512State},
    {"AVX512BITALG", CAIRN_NEEDS_AVX512BITALG, 0, 7, 0, kEcx, 12, kAvx512State},
    {"AVX512VPOPCNTDQ", CAIRN_NEEDS_AVX512VPOPCNTDQ, 0, 7, 0, kEcx, 14, kAvx512State},
    {"AVX512VP2INTERSECT", CAIRN_NEEDS_AVX512VP2INTERSECT, 0, 7, 0, kEdx, 8, kAvx512State},
    {"AVX512FP16", CAIRN_NEEDS_AVX512FP16, 0, 7, 0, kEdx, 23, kAvx512State},
    {"AVX512BF16", CAIRN_NEEDS_AVX512BF16, 0, 7, 1, kEax, 5, kAvx512State},
    {"AVXVNNI", CAIRN_NEEDS_AVXVNNI, 0, 7, 1, kEax, 4, kAvxState},
    {"GFNI", CAIRN_NEEDS_GFNI, 0, 7, 0, kEcx, 8, kNoState},
    {"VAES", CAIRN_NEEDS_VAES, 0, 7, 0, kEcx, 9, kAvxState},
    {"VPCLMULQDQ", CAIRN_NEEDS_VPCLMULQDQ, 0, 7, 0, kEcx, 10, kAvxState},
    {"AES", CAIRN_NEEDS_AES, 0, 1, 0, kEcx, 25, kNoState},
    {"PCLMULQDQ", CAIRN_NEEDS_PCLMUL, 0, 1, 0, kEcx, 1, kNoState},
    {"SHA", CAIRN_NEEDS_SHA, 0, 7, 0, kEbx, 29, kNoState},
    {"SSE4a", CAIRN_NEEDS_SSE4A, 0, 0x80000001, 0, kEcx, 6, kNoState},
    {"XOP", CAIRN_NEEDS_XOP, 0, 0x80000001, 0, kEcx, 11, kAvxState},
    {"FMA4", CAIRN_NEEDS_FMA4, 0, 0x80000001, 0, kEcx, 16, kAvxState},
    {"TBM", CAIRN_NEEDS_TBM, 0, 0x80000001, 0, kEcx, 21, kNoState},
};

// Which register states the operating system saves: XCR0, readable when CPUID says OSXSAVE.
bool Saves(State state) {
  if (state == kNoState) return true;
  unsigned eax, ebx, ecx, edx;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || (ecx & (1u << 27)) == 0) return false;
  unsigned low, high;
  // volatile: the compiler must not move it before the test above.
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  const unsigned mask = state == kAvxState ? 0x06 : 0xe6;
  return (low & mask) == mask;
}

bool Has(const Feature& feature) {
  unsigned value[4] = {0, 0, 0, 0};
  if (!__get_cpuid_count(feature.leaf, feature.subleaf, &value[kEax], &value[kEbx], &value[kEcx], &value[kEdx]))
    return false;
  return (value[feature.reg] & (1u << feature.bit)) != 0 && Saves(feature.state);
}

// Adds what is lacking, if anything is; *wanted: what to build for instead.
bool AddLacking(Line* line, const char** wanted) {
  int level = 4;  // the x86-64 level of this processor
  bool lacks = false;
  for (const Feature& feature : kFeatures) {
    if (Has(feature)) continue;
    if (feature.level != 0 && feature.level <= level) level = feature.level - 1;
    if (feature.needed) {
      line->Add(" ");
      line->Add(feature.name);
      lacks = true;
    }
  }
  *wanted = level >= 3 ? "x86-64-v3" : level == 2 ? "x86-64-v2" : "x86-64";
  return lacks;
}

#else

struct Feature {
  const char* name;
  bool needed;  // as above
  bool in_8_2;  // part of armv8.2-a
  unsigned long which;
  int bit;
};

// Linux, Documentation/arch/arm64/elf_hwcaps.rst: what the kernel tells of the processor's registers.
constexpr Feature kFeatures[] = {
    {"CRC32", CAIRN_NEEDS_CRC32, true, AT_HWCAP, 7},
    {"ATOMICS", CAIRN_NEEDS_ATOMICS, true, AT_HWCAP, 8},
    {"ASIMDRDM", CAIRN_NEEDS_QRDMX, true, AT_HWCAP, 12},
    {"DCPOP", false, true, AT_HWCAP, 16},
    {"AES", CAIRN_NEEDS_AES, false, AT_HWCAP, 3},
    {"SHA2", CAIRN_NEEDS_SHA2, false, AT_HWCAP, 6},
    {"FPHP", CAIRN_NEEDS_FP16_SCALAR_ARITHMETIC, false, AT_HWCAP, 9},
    {"ASIMDHP", CAIRN_NEEDS_FP16_VECTOR_ARITHMETIC, false, AT_HWCAP, 10},
    {"JSCVT", CAIRN_NEEDS_JCVT, false, AT_HWCAP, 13},
    {"FCMA", CAIRN_NEEDS_COMPLEX, false, AT_HWCAP, 14},
    {"LRCPC", CAIRN_NEEDS_RCPC, false, AT_HWCAP, 15},
    {"SHA3", CAIRN_NEEDS_SHA3, false, AT_HWCAP, 17},
    {"SM3", CAIRN_NEEDS_SM3, false, AT_HWCAP, 18},
    {"SM4", CAIRN_NEEDS_SM4, false, AT_HWCAP, 19},
    {"ASIMDDP", CAIRN_NEEDS_DOTPROD, false, AT_HWCAP, 20},
    {"SHA512", CAIRN_NEEDS_SHA512, false, AT_HWCAP, 21},
    {"SVE", CAIRN_NEEDS_SVE, false, AT_HWCAP, 22},
    {"ASIMDFHM", CAIRN_NEEDS_FP16_FML, false, AT_HWCAP, 23},
    {"SVE2", CAIRN_NEEDS_SVE2, false, AT_HWCAP2, 1},
    {"FRINT", CAIRN_NEEDS_FRINT, false, AT_HWCAP2, 8},
    {"I8MM", CAIRN_NEEDS_MATMUL_INT8, false, AT_HWCAP2, 13},
    {"BF16", CAIRN_NEEDS_BF16_VECTOR_ARITHMETIC, false, AT_HWCAP2, 14},
    {"RNG", CAIRN_NEEDS_RNG, false, AT_HWCAP2, 16},
};

bool AddLacking(Line* line, const char** wanted) {
  bool is_8_2 = true;
  bool lacks = false;
  for (const Feature& feature : kFeatures) {
    if ((getauxval(feature.which) >> feature.bit & 1) != 0) continue;
    is_8_2 = is_8_2 && !feature.in_8_2;
    if (feature.needed) {
      line->Add(" ");
      line->Add(feature.name);
      lacks = true;
    }
  }
  *wanted = is_8_2 ? "armv8.2-a" : "armv8-a";
  return lacks;
}

#endif

// 101 is the first priority that is not the compiler's own. RocksDB's initialisers have none, hence come later.
__attribute__((constructor(101))) void CheckProcessor() {
  Line line;
  const char* wanted = nullptr;
  line.Add("librocksdb with Cairn was built for the processor " CAIRN_PROCESSOR_NAME "; this one lacks");
  if (!AddLacking(&line, &wanted)) return;
  line.Add(": rebuild with -DCAIRN_PORTABLE=");
  line.Add(wanted);
  line.text[line.size++] = '\n';
  const ssize_t written = write(STDERR_FILENO, line.text, line.size);
  (void)written;
  _exit(70);
}

}  // namespace

#endif  // elsewhere there is nothing to compare

extern "C" const int cairn_processor_check = 1;

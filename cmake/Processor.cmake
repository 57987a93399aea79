# Compiles util/processor_check.cc with the features that -march allows, taken from the compiler's own macros.
#
#   cairn_processor_needs(VARIABLE MACROS)   compile definitions, from the output of `c++ -march=... -dM -E`

set(cairn_processor_features
  SSE3 SSSE3 SSE4_1 SSE4_2 POPCNT AVX F16C FMA MOVBE LZCNT BMI AVX2 BMI2 AVX512F AVX512DQ AVX512CD AVX512BW AVX512VL
  AVX512IFMA AVX512VBMI AVX512VBMI2 AVX512VNNI AVX512BITALG AVX512VPOPCNTDQ AVX512VP2INTERSECT AVX512FP16 AVX512BF16 AVXVNNI
  GFNI VAES VPCLMULQDQ AES PCLMUL SHA SSE4A XOP FMA4 TBM)

set(cairn_arm64_features
  CRC32 ATOMICS QRDMX AES SHA2 FP16_SCALAR_ARITHMETIC FP16_VECTOR_ARITHMETIC JCVT COMPLEX RCPC SHA3 SM3 SM4 DOTPROD SHA512 SVE
  FP16_FML SVE2 FRINT MATMUL_INT8 BF16_VECTOR_ARITHMETIC RNG)

function(cairn_processor_needs variable macros)
  set(arm64 OFF)
  set(features ${cairn_processor_features} SAHF CX16)
  if(macros MATCHES "#define __aarch64__ 1")
    set(arm64 ON)
    set(features ${cairn_arm64_features})
  endif()
  set(definitions "")
  foreach(feature ${features})
    set(macro "__${feature}__")
    if(arm64)
      set(macro "__ARM_FEATURE_${feature}")
    elseif(feature STREQUAL "SAHF")
      set(macro "__LAHF_SAHF__")
    elseif(feature STREQUAL "CX16")
      set(macro "__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16")
    endif()
    if(macros MATCHES "#define ${macro} 1")
      list(APPEND definitions "CAIRN_NEEDS_${feature}=1")
    else()
      list(APPEND definitions "CAIRN_NEEDS_${feature}=0")
    endif()
  endforeach()
  set(${variable} "${definitions}" PARENT_SCOPE)
endfunction()

set(cairn_processor_source "${CMAKE_SOURCE_DIR}/util/processor_check.cc")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64|aarch64|arm64)$")
  set(cairn_processor_name "${CAIRN_PORTABLE}")
  if(CAIRN_PORTABLE STREQUAL "native")
    set(cairn_processor_name "of the machine that compiled it")
  endif()
  # After the target's own flags, so that these win.
  set(cairn_processor_options -march=x86-64 -mtune=generic -O2 -fno-sanitize=all -fno-stack-protector)
  if(cairn_target_macros MATCHES "#define __aarch64__ 1")
    list(TRANSFORM cairn_processor_options REPLACE "-march=.*" "-march=armv8-a")
  endif()
  cairn_processor_needs(definitions "${cairn_target_macros}")
  set_source_files_properties("${cairn_processor_source}" PROPERTIES
    COMPILE_DEFINITIONS "${definitions};CAIRN_PROCESSOR_NAME=\"${cairn_processor_name}\""
    COMPILE_OPTIONS "${cairn_processor_options}")
endif()
set_property(GLOBAL APPEND PROPERTY CAIRN_SOURCES "${cairn_processor_source}")

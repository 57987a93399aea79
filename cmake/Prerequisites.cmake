# Looks for what the build takes from the distribution, before RocksDB is built, so that a missing package costs a second and
# one line. Also sets CCACHE.

find_program(CCACHE ccache)
find_program(NINJA NAMES ninja ninja-build)

set(missing "")
if(NOT NINJA)
  list(APPEND missing ninja-build)
endif()
# Debian's package, a header and a library that it has.
foreach(item
    "libgflags-dev gflags/gflags.h gflags" "libsnappy-dev snappy.h snappy" "libzstd-dev zstd.h zstd" "liblz4-dev lz4.h lz4"
    "zlib1g-dev zlib.h z" "libbz2-dev bzlib.h bz2" "libmd-dev sha1.h md" "libxxhash-dev xxhash.h xxhash"
    "nlohmann-json3-dev nlohmann/json.hpp -")
  separate_arguments(item)
  list(GET item 0 package)
  list(GET item 1 header)
  list(GET item 2 library)
  string(MAKE_C_IDENTIFIER "${package}" id)
  find_path(CAIRN_${id}_INCLUDE "${header}")
  mark_as_advanced(CAIRN_${id}_INCLUDE)
  if(NOT library STREQUAL "-")
    find_library(CAIRN_${id}_LIBRARY "${library}")
    mark_as_advanced(CAIRN_${id}_LIBRARY)
  else()
    set(CAIRN_${id}_LIBRARY "none")
  endif()
  if(NOT CAIRN_${id}_INCLUDE OR NOT CAIRN_${id}_LIBRARY)
    list(APPEND missing "${package}")
  endif()
endforeach()
if(missing)
  list(JOIN missing " " missing)
  message(FATAL_ERROR "Missing: ${missing}. Run scripts/install_packages build, or: apt-get install ${missing}")
endif()

foreach(what TESTS BENCHMARKS)
  if(CAIRN_BUILD_${what})
    if(what STREQUAL "TESTS")
      find_package(GTest QUIET)
      set(found "${GTest_FOUND}")
    else()
      find_package(benchmark QUIET)
      set(found "${benchmark_FOUND}")
    endif()
    if(NOT found)
      # For this run only: cmake looks again when it runs next.
      message(STATUS "CAIRN_BUILD_${what} has no effect: scripts/install_packages test installs what it takes")
      set(CAIRN_BUILD_${what} OFF)
    endif()
  endif()
endforeach()

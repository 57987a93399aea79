# Builds for arm64 with the distribution's cross compiler (scripts/install_packages arm64); what ctest runs, qemu-user runs.
#
#   CAIRN_ARM64_ROOT   a folder with the libraries of arm64; empty: the one that scripts/fetch_arm64 brings into the cache folder
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

if(NOT CAIRN_ARM64_ROOT)
  include("${CMAKE_CURRENT_LIST_DIR}/CacheFolder.cmake")
  execute_process(
    COMMAND "${CMAKE_CURRENT_LIST_DIR}/../scripts/fetch_arm64" "${cairn_cache}"
    OUTPUT_VARIABLE CAIRN_ARM64_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "The libraries of arm64 are missing (the line above says why). "
                        "Name a folder with them with -DCAIRN_ARM64_ROOT=DIR, or mend the cause and run cmake again.")
  endif()
endif()
# Also for CMake's own trials and for RocksDB's build (RocksDB.cmake).
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CAIRN_ARM64_ROOT)

set(CMAKE_SYSROOT "${CAIRN_ARM64_ROOT}")
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L "${CAIRN_ARM64_ROOT}")

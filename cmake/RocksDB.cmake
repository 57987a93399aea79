# Brings RocksDB, built once per version, flags and compiler, from a cache folder outside the clone.
#
# Gives: ROCKSDB_SOURCE         the unpacked source
#        ROCKSDB_INCLUDE_DIRS   the source tree (internal headers too) and its include/
#        ROCKSDB_ARCHIVE        every object of the library, position independent, with the call that registers Cairn
#        ROCKSDB_TOOLS_SOURCES  RocksDB's db_bench without its main()
#        ROCKSDB_DEFINITIONS    what internal headers must be compiled with to agree with the library
#        ROCKSDB_LIBRARIES      what the library itself links

if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER "${CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE}")
endif()

include("${CMAKE_CURRENT_LIST_DIR}/CacheFolder.cmake")

# Seen from where cmake is called, which a later run of it does not know.
if(CAIRN_ROCKSDB_SOURCE AND NOT CAIRN_ROCKSDB_SOURCE MATCHES "^[0-9.]+$")
  get_filename_component(cairn_rocksdb_source "${CAIRN_ROCKSDB_SOURCE}" ABSOLUTE BASE_DIR "$ENV{PWD}")
  set_property(CACHE CAIRN_ROCKSDB_SOURCE PROPERTY VALUE "${cairn_rocksdb_source}")
endif()
execute_process(
  COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/scripts/fetch_rocksdb" "${cairn_cache}" ${CAIRN_ROCKSDB_SOURCE}
  OUTPUT_VARIABLE cairn_rocksdb_source OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "RocksDB's source is missing (the line above says why). "
                      "Name an unpacked tree with -DCAIRN_ROCKSDB_SOURCE=DIR, or mend the cause and run cmake again.")
endif()
set(ROCKSDB_SOURCE "${cairn_rocksdb_source}")
set(version_h "${cairn_rocksdb_source}/include/rocksdb/version.h")
file(READ "${version_h}" version_text)
foreach(part MAJOR MINOR PATCH)
  string(REGEX MATCH "#define ROCKSDB_${part} ([0-9]+)" unused "${version_text}")
  set(ROCKSDB_${part} "${CMAKE_MATCH_1}")
endforeach()
set(ROCKSDB_VERSION "${ROCKSDB_MAJOR}.${ROCKSDB_MINOR}.${ROCKSDB_PATCH}")
if(ROCKSDB_VERSION VERSION_LESS 9.10 OR ROCKSDB_VERSION VERSION_GREATER_EQUAL 11.9)
  message(FATAL_ERROR "Cairn takes RocksDB 9.10 to 11.8; ${cairn_rocksdb_source} holds ${ROCKSDB_VERSION}.")
endif()
set(cairn_tested_rocksdb 9.10.0 11.8.1)
if(NOT ROCKSDB_VERSION IN_LIST cairn_tested_rocksdb)
  string(REPLACE ";" " and " tested "${cairn_tested_rocksdb}")
  message(WARNING "Cairn is tested with RocksDB ${tested}, not with ${ROCKSDB_VERSION}: run "
                  "./test.sh --rocksdb=${cairn_rocksdb_source} before you trust data to it.")
endif()

# RocksDB's headers are in C++20 since 10.7, so whatever includes them is, too. (9.10 says its own standard: its build is as it was.)
set(cairn_rocksdb_standard "")
if(ROCKSDB_VERSION VERSION_GREATER_EQUAL 10.7)
  set(CMAKE_CXX_STANDARD 20)
  set(cairn_rocksdb_standard -DCMAKE_CXX_STANDARD=20)
elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Some releases take C++14 for granted.
  set(cairn_rocksdb_standard -DCMAKE_CXX_STANDARD=17)
endif()

set(cairn_march "-march=${CAIRN_PORTABLE}")

# What -march=native means differs from machine to machine, and a cache folder may be shared: the macros tell them apart.
function(cairn_find_target_macros)
  execute_process(COMMAND "${CMAKE_CXX_COMPILER}" ${cairn_march} -dM -E -x c++ /dev/null
                  OUTPUT_VARIABLE macros RESULT_VARIABLE failed ERROR_VARIABLE why)
  if(failed)
    message(FATAL_ERROR "The compiler does not know the processor -DCAIRN_PORTABLE=${CAIRN_PORTABLE}: ${why}")
  endif()
  set(cairn_target_macros "${macros}" PARENT_SCOPE)
endfunction()
cairn_find_target_macros()
# RocksDB takes it for granted that AVX comes with carry-less multiplication. Every such processor has both; -march=x86-64-v3 leaves it out.
if(cairn_target_macros MATCHES "#define __AVX__ 1" AND NOT cairn_target_macros MATCHES "#define __PCLMUL__ 1")
  list(APPEND cairn_march -mpclmul)
  cairn_find_target_macros()
endif()
string(REPLACE ";" " " cairn_march_flags "${cairn_march}")
file(GLOB recipe "${CMAKE_CURRENT_LIST_DIR}/substrate/*" "${CMAKE_CURRENT_LIST_DIR}/substrate/plugin/*")
list(FILTER recipe EXCLUDE REGEX "/plugin$")
set(cairn_rocksdb_sanitize "${CAIRN_SANITIZE}")
if(NOT CAIRN_SANITIZE_ROCKSDB)
  set(cairn_rocksdb_sanitize "")
endif()
set(key "${ROCKSDB_VERSION}|${cairn_rocksdb_source}|${CMAKE_BUILD_TYPE}|${cairn_rocksdb_sanitize}|${CAIRN_PORTABLE}")
string(APPEND key "|${CMAKE_CXX_COMPILER}|${CMAKE_CXX_COMPILER_VERSION}|${CMAKE_CXX_FLAGS}|${cairn_target_macros}")
set(cairn_debug_flags)
if(CMAKE_BUILD_TYPE STREQUAL "Debug" AND NOT cairn_rocksdb_sanitize)
  # xxHash demands inlining that gcc does not do at -Og.
  set(cairn_debug_flags "-DXXH_NO_INLINE_HINTS=1")
  string(APPEND key "|${cairn_debug_flags}")
endif()
# cmake/hook_symbols wants RocksDB's calls of its own functions to go by their symbols. gcc's do, clang's only if told to.
set(cairn_calls "-fsemantic-interposition")
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  string(APPEND key "|${cairn_calls}")
endif()
foreach(file ${recipe})
  file(SHA256 "${file}" sum)
  string(APPEND key "|${sum}")
endforeach()
set(cairn_target_name "")
set(cairn_cross_flags "")
if(CMAKE_CROSSCOMPILING)
  set(cairn_target_name "-${CMAKE_SYSTEM_PROCESSOR}")
  string(APPEND key "|${CMAKE_SYSTEM_PROCESSOR}|${CMAKE_SYSROOT}")
  if(CMAKE_TOOLCHAIN_FILE)
    set(cairn_cross_flags "-DCMAKE_TOOLCHAIN_FILE=${CMAKE_TOOLCHAIN_FILE}" "-DCAIRN_ARM64_ROOT=${CAIRN_ARM64_ROOT}")
  else()
    set(cairn_cross_flags "-DCMAKE_SYSTEM_NAME=${CMAKE_SYSTEM_NAME}" "-DCMAKE_SYSTEM_PROCESSOR=${CMAKE_SYSTEM_PROCESSOR}")
  endif()
endif()
if(cairn_target_macros MATCHES "#define __aarch64__ 1" AND CMAKE_BUILD_TYPE STREQUAL "Release")
  # RocksDB says armv8-a+crc+crypto behind what it is given, and asks the processor when it runs whether it has these. Behind that
  # again: later processors' atomics are not lost.
  set(march "${CAIRN_PORTABLE}")
  if(NOT march MATCHES "^native")
    string(APPEND march "+crc+crypto")
  endif()
  list(APPEND cairn_cross_flags "-DCMAKE_CXX_FLAGS_RELEASE=-O3 -DNDEBUG -march=${march}")
  string(APPEND key "|${march}")
endif()
string(SHA256 key "${key}")
string(SUBSTRING "${key}" 0 12 key)
string(TOLOWER "${CMAKE_BUILD_TYPE}" flavour)
if(cairn_rocksdb_sanitize)
  set(flavour "${cairn_rocksdb_sanitize}")
endif()
set(cairn_substrate "${cairn_cache}/rocksdb-${ROCKSDB_VERSION}-${flavour}${cairn_target_name}-${key}")
if(CAIRN_ROCKSDB_BUILD)
  if(NOT EXISTS "${CAIRN_ROCKSDB_BUILD}/substrate.cmake")
    message(FATAL_ERROR "CAIRN_ROCKSDB_BUILD names ${CAIRN_ROCKSDB_BUILD}, which has no RocksDB that was built to its end.")
  endif()
  set(cairn_substrate "${CAIRN_ROCKSDB_BUILD}")
endif()
set(CAIRN_ROCKSDB_TAKEN "${cairn_substrate}" CACHE INTERNAL "The folder of the cache whose RocksDB is taken")

# Two configurations that start at once share one build; a build that was cut short is not taken for a whole one.
file(MAKE_DIRECTORY "${cairn_cache}")
file(LOCK "${cairn_substrate}.lock" GUARD FILE TIMEOUT 3600)
if(NOT EXISTS "${cairn_substrate}/substrate.cmake")
  message(STATUS "Building RocksDB ${ROCKSDB_VERSION} (${flavour}) into ${cairn_substrate}: about 3 minutes, once")
  file(REMOVE_RECURSE "${cairn_substrate}")
  file(MAKE_DIRECTORY "${cairn_substrate}")
  # Objects and archives: 60 MB in Release, ten times that with the debug information of a sanitizer's build.
  set(needed_mb 300)
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Release" OR CMAKE_CXX_FLAGS MATCHES "(^| )-g")
    set(needed_mb 1200)
  endif()
  execute_process(COMMAND df -Pm "${cairn_substrate}" OUTPUT_VARIABLE free_mb ERROR_QUIET)
  string(REGEX REPLACE ".*\n[^ ]+ +[0-9]+ +[0-9]+ +([0-9]+).*" "\\1" free_mb "${free_mb}")
  if(free_mb MATCHES "^[0-9]+$" AND free_mb LESS needed_mb)
    file(REMOVE_RECURSE "${cairn_substrate}")
    message(FATAL_ERROR "${cairn_cache} has ${free_mb} MB free and RocksDB's build takes ${needed_mb}: free some, "
                        "or name another folder in CAIRN_CACHE_DIR.")
  endif()
  # RocksDB's CMake wants plugins inside its tree; a tree of links leaves the source as it is.
  execute_process(COMMAND cp -rs "${cairn_rocksdb_source}" "${cairn_substrate}/src" RESULT_VARIABLE failed)
  if(NOT failed)
    execute_process(COMMAND "${CMAKE_COMMAND}" -E copy_directory "${CMAKE_CURRENT_LIST_DIR}/substrate/plugin"
                            "${cairn_substrate}/src/plugin/cairn" RESULT_VARIABLE failed)
  endif()
  # Its messages and debug information name files of its tree, wherever that lies. Not part of the key: what is built is the same.
  set(cairn_names "-fmacro-prefix-map=${cairn_substrate}/src/=rocksdb/ -fdebug-prefix-map=${cairn_substrate}/=rocksdb/")
  if(NOT failed)
    execute_process(
      COMMAND "${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}/substrate" -B "${cairn_substrate}/build" -G Ninja
              -DCMAKE_BUILD_TYPE=${CMAKE_BUILD_TYPE} -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}
              -DCMAKE_C_COMPILER=${CMAKE_C_COMPILER} "-DCMAKE_CXX_FLAGS=${CMAKE_CXX_FLAGS} ${cairn_march_flags} ${cairn_debug_flags} ${cairn_calls} ${cairn_names} -w"
              ${cairn_rocksdb_standard} -DROCKSDB_TREE=${cairn_substrate}/src -DSANITIZE=${cairn_rocksdb_sanitize} -DPORTABLE=1
              ${cairn_cross_flags}
      OUTPUT_FILE "${cairn_substrate}/configure.log" ERROR_FILE "${cairn_substrate}/configure.log"
      RESULT_VARIABLE failed)
  endif()
  if(NOT failed)
    execute_process(COMMAND "${CMAKE_COMMAND}" --build "${cairn_substrate}/build" --target rocksdb RESULT_VARIABLE failed)
  endif()
  if(failed)
    if(EXISTS "${cairn_substrate}/configure.log")
      file(RENAME "${cairn_substrate}/configure.log" "${cairn_substrate}.log")
    endif()
    file(REMOVE_RECURSE "${cairn_substrate}")
    message(FATAL_ERROR "RocksDB did not build: the messages are above, those of its configuration in ${cairn_substrate}.log. "
                        "A full disk, too little memory (1.5 GB a job; CMAKE_BUILD_PARALLEL_LEVEL=1 helps) "
                        "and missing packages (scripts/install_packages build) are the usual causes.")
  endif()
  # Nothing compiles these again.
  file(REMOVE_RECURSE "${cairn_substrate}/build/rocksdb/CMakeFiles" "${cairn_substrate}/build/CMakeFiles")
  # Written last: its presence says that the build is whole.
  file(RENAME "${cairn_substrate}/build/substrate.cmake" "${cairn_substrate}/substrate.cmake")
endif()
file(LOCK "${cairn_substrate}.lock" RELEASE)
include("${cairn_substrate}/substrate.cmake")
if(CMAKE_CXX_FLAGS MATCHES "-fdebug-prefix-map")
  # A packager's, whose debug information is to say the same wherever the build lay.
  add_compile_options("-fdebug-prefix-map=${cairn_substrate}/=rocksdb/" "-fdebug-prefix-map=${ROCKSDB_SOURCE}/=rocksdb/src/")
endif()

# How the type that rocksdb::DB's functions open a database into is mangled (CAIRN_OPENED_DB_SYMBOL of rocksdb/port/open_into.h).
set(ROCKSDB_OPENED_DB_SYMBOL "PPS0_")
if(ROCKSDB_VERSION VERSION_GREATER_EQUAL 11.0)
  set(ROCKSDB_OPENED_DB_SYMBOL "PSt10unique_ptrIS0_St14default_deleteIS0_EE")
endif()

# Compiled where db_bench is made, because few need it. Since 10.0 it asks the last one for what it opens.
set(ROCKSDB_TOOLS_SOURCES "${ROCKSDB_TREE}/tools/db_bench_tool.cc" "${ROCKSDB_TREE}/tools/simulated_hybrid_file_system.cc")
if(EXISTS "${ROCKSDB_SOURCE}/tools/tool_hooks.cc")
  list(APPEND ROCKSDB_TOOLS_SOURCES "${ROCKSDB_SOURCE}/tools/tool_hooks.cc")
endif()

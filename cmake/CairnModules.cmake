# What the folders' CMakeLists say:
#
#   cairn_sources(a.cc b.cc)             compiled into librocksdb beside RocksDB's own objects
#   cairn_test(x_test [FILE.cc ...] [ALONE] [GROUP g] [SHARDS n] [LIBRARIES ...] [LABELS ...] [ARGUMENTS ...])
#                                        GoogleTests, run by ctest; default source x_test.cc. A folder's tests share a program.
#                                        GROUP g: compiled with those of group g, because it has a name that another file has, too
#                                        ALONE: a program of its own, because it has a main() or replaces a function of the system
#   cairn_bench(x_bench [PLAIN] [FILE.cc ...] [LIBRARIES ...])   a google-benchmark program, or a PLAIN one; built, not run by ctest
#   cairn_program(name SOURCES ... [LIBRARIES ...])   a program of build/bin, installed

include(GNUInstallDirs)
find_package(Threads REQUIRED)

# Internal headers of RocksDB must see what the library was compiled with.
add_library(cairn_flags INTERFACE)
target_include_directories(cairn_flags INTERFACE "${CMAKE_SOURCE_DIR}" "${CMAKE_SOURCE_DIR}/include")
target_include_directories(cairn_flags SYSTEM INTERFACE ${ROCKSDB_INCLUDE_DIRS})
target_compile_definitions(cairn_flags INTERFACE ${ROCKSDB_DEFINITIONS} ROCKSDB_USE_RTTI)
target_compile_options(cairn_flags INTERFACE
  ${cairn_march} -Wall -Wextra $<$<BOOL:${CAIRN_WERROR}>:-Werror> -Wshadow -Wno-unused-parameter -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # What these see depends on what was inlined: gcc 14 finds faults in the standard library where gcc 12 finds none.
  target_compile_options(cairn_flags INTERFACE
    -Wno-error=array-bounds -Wno-error=stringop-overflow -Wno-error=maybe-uninitialized -Wno-error=restrict)
endif()
if(CAIRN_SANITIZE STREQUAL "address")
  set(cairn_sanitize_flags -fsanitize=address,undefined -fno-sanitize=vptr)
elseif(CAIRN_SANITIZE STREQUAL "thread")
  # gcc warns that it does not model std::atomic_thread_fence.
  set(cairn_sanitize_flags -fsanitize=thread -Wno-error=tsan)
elseif(CAIRN_SANITIZE)
  message(FATAL_ERROR "CAIRN_SANITIZE is ${CAIRN_SANITIZE}; it may be empty, address or thread.")
endif()
if(CAIRN_SANITIZE)
  target_compile_options(cairn_flags INTERFACE ${cairn_sanitize_flags} -g1 -O1)
  target_link_options(cairn_flags INTERFACE ${cairn_sanitize_flags})
endif()

if(CAIRN_COVERAGE)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "CAIRN_COVERAGE needs clang: test/coverage/run finds one.")
  endif()
  target_compile_options(cairn_flags INTERFACE -fprofile-instr-generate -fcoverage-mapping -O1)
  target_link_options(cairn_flags INTERFACE -fprofile-instr-generate)
endif()

set(cairn_system_libraries gflags snappy z bz2 lz4 zstd Threads::Threads ${CMAKE_DL_LIBS})
# What RocksDB of the distribution does not need, a program must not need because of Cairn: these are linked as archives (libmd
# is of the ISC and BSD licences, liburing of MIT's), whose symbols stay inside. What only some options need is loaded when
# they ask: libpmem (memtable_cache/pmem_library.h), NLopt (msls/optimizer.cc).
set(cairn_inside "")
foreach(library md uring)
  find_library(CAIRN_${library}_ARCHIVE lib${library}.a)
  find_library(CAIRN_${library}_SHARED ${library})
  mark_as_advanced(CAIRN_${library}_ARCHIVE CAIRN_${library}_SHARED)
  if(CAIRN_${library}_ARCHIVE)
    list(APPEND cairn_system_libraries -l:lib${library}.a)
    list(APPEND cairn_inside lib${library}.a)
  elseif(CAIRN_${library}_SHARED)
    list(APPEND cairn_system_libraries ${library})
  endif()
endforeach()
if(cairn_inside)
  list(JOIN cairn_inside ":" cairn_inside)
  set(cairn_inside "-Wl,--exclude-libs,${cairn_inside}")
endif()

function(cairn_sources)
  foreach(file ${ARGN})
    set_property(GLOBAL APPEND PROPERTY CAIRN_SOURCES "${CMAKE_CURRENT_SOURCE_DIR}/${file}")
  endforeach()
endfunction()

# Libraries of the distribution that a module links, besides those RocksDB needs.
function(cairn_system_library)
  set_property(GLOBAL APPEND PROPERTY CAIRN_SYSTEM_LIBRARIES ${ARGN})
endfunction()

# RocksDB's archive with the functions that sources of db/ define anew made weak.
function(cairn_hooked_archive)
  set(hooked "${CMAKE_BINARY_DIR}/rocksdb_hooked/librocksdb.a")
  set(list "${CMAKE_SOURCE_DIR}/rocksdb/rocksdb_hooks.txt")
  set(program "${CMAKE_SOURCE_DIR}/cmake/hook_symbols")
  file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/rocksdb_hooked")
  add_custom_command(OUTPUT "${hooked}"
    COMMAND "${CMAKE_COMMAND}" -E env "OBJCOPY=${CMAKE_OBJCOPY}" "OBJDUMP=${CMAKE_OBJDUMP}" "AR=${CMAKE_AR}"
            "${program}" "${ROCKSDB_ARCHIVE}" "${list}" "${ROCKSDB_VERSION}" "${hooked}"
    DEPENDS "${ROCKSDB_ARCHIVE}" "${list}" "${program}" VERBATIM)
  add_custom_target(cairn_hooked_archive DEPENDS "${hooked}")
  set(cairn_hooked_archive "${hooked}" PARENT_SCOPE)
endfunction()

# The sources of a target as one, but for those of EXCEPT, which have a name that another one has, too.
function(cairn_unity target)
  cmake_parse_arguments(U "" "" "EXCEPT" ${ARGN})
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # To gcc every file then looks like a header, where a type of an unnamed namespace would be a mistake.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
  if(U_EXCEPT)
    set_property(SOURCE ${U_EXCEPT} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# The sources of a folder as one, but for those that have a name of their own which another of their folder has, too.
set(cairn_alone
  table/ect/ect_block_layout.cc memtable_cache/recovery.cc memtable_cache/resctrl.cc msls/popularity.cc table/ordered/order_segment.cc)
function(cairn_compile_together)
  cairn_unity(cairn_objects)
  set_target_properties(cairn_objects PROPERTIES UNITY_BUILD_MODE GROUP)
  foreach(source ${ARGN})
    file(RELATIVE_PATH name "${CMAKE_SOURCE_DIR}" "${source}")
    get_filename_component(folder "${name}" DIRECTORY)
    string(MAKE_C_IDENTIFIER "${folder}" group)
    if(NOT name IN_LIST cairn_alone)
      set_property(SOURCE "${source}" PROPERTY UNITY_GROUP "${group}")
    endif()
  endforeach()
endfunction()

function(cairn_link_libraries)
  cairn_hooked_archive()
  get_property(sources GLOBAL PROPERTY CAIRN_SOURCES)
  get_property(more_libraries GLOBAL PROPERTY CAIRN_SYSTEM_LIBRARIES)
  set(libraries ${cairn_system_libraries} ${more_libraries})
  add_library(cairn_objects OBJECT ${sources})
  target_link_libraries(cairn_objects PRIVATE cairn_flags)
  if(CAIRN_UNITY)
    cairn_compile_together(${sources})
  endif()

  add_library(rocksdb SHARED $<TARGET_OBJECTS:cairn_objects>)
  set_target_properties(rocksdb PROPERTIES
    VERSION ${ROCKSDB_VERSION} SOVERSION ${ROCKSDB_MAJOR}.${ROCKSDB_MINOR} LINKER_LANGUAGE CXX
    LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib" LINK_DEPENDS "${cairn_hooked_archive}")
  add_dependencies(rocksdb cairn_hooked_archive)
  set_property(TARGET rocksdb APPEND PROPERTY LINK_DEPENDS "${CMAKE_SOURCE_DIR}/cmake/hidden_symbols")
  target_link_options(rocksdb PRIVATE "LINKER:--version-script=${CMAKE_SOURCE_DIR}/cmake/hidden_symbols")
  target_link_libraries(rocksdb
    PRIVATE cairn_flags ${cairn_inside} -Wl,--whole-archive "${cairn_hooked_archive}" -Wl,--no-whole-archive
            -Wl,--as-needed ${libraries})
  # Consumers in this build get RocksDB's public headers from cairn_flags, those of an installed tree from the install.
  target_include_directories(rocksdb INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>)
  target_compile_features(rocksdb INTERFACE cxx_std_${CMAKE_CXX_STANDARD})

  # Programs ask for RocksDB 9.10, say, as librocksdb.so.9.10 where it was built by its Makefile, as distributions' packages are, or
  # as librocksdb.so.9, built by its CMake. The library has the first name, so that what is linked with it runs with theirs, too. A
  # link would not do for the second: the loader's cache holds libraries by the one name that is inside them. So it is a
  # library without content that needs the other, and a process that asks by both names has one RocksDB.
  set(second_name "${CMAKE_BINARY_DIR}/lib/librocksdb${CMAKE_SHARED_LIBRARY_SUFFIX}.${ROCKSDB_MAJOR}")
  if(IS_SYMLINK "${second_name}")
    file(REMOVE "${second_name}")  # of an earlier build, where it led to the library itself
  endif()
  add_library(rocksdb_second_name SHARED "${CMAKE_SOURCE_DIR}/cmake/second_name.c")
  set_target_properties(rocksdb_second_name PROPERTIES
    OUTPUT_NAME rocksdb SUFFIX "${CMAKE_SHARED_LIBRARY_SUFFIX}.${ROCKSDB_MAJOR}" LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib"
    BUILD_RPATH "$ORIGIN" INSTALL_RPATH "$ORIGIN" BUILD_WITH_INSTALL_RPATH ON)
  target_link_libraries(rocksdb_second_name PRIVATE -Wl,--no-as-needed rocksdb)

  add_library(rocksdb_static STATIC $<TARGET_OBJECTS:cairn_objects>)
  set_target_properties(rocksdb_static PROPERTIES
    OUTPUT_NAME rocksdb LINKER_LANGUAGE CXX ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
  # Cairn's objects and RocksDB's become members of one archive.
  file(WRITE "${CMAKE_BINARY_DIR}/merge_archives.sh"
"set -e
merged=\"$1.merged\"  # llvm-ar opens no archive to change it
rm -f \"$merged\"
printf 'create %s\\naddlib %s\\naddlib %s\\nsave\\nend\\n' \"$merged\" \"$1\" \"${cairn_hooked_archive}\" | \"${CMAKE_AR}\" -M
\"${CMAKE_RANLIB}\" \"$merged\"
mv \"$merged\" \"$1\"
")
  add_dependencies(rocksdb_static cairn_hooked_archive)
  add_custom_command(TARGET rocksdb_static POST_BUILD
    COMMAND sh "${CMAKE_BINARY_DIR}/merge_archives.sh" "$<TARGET_FILE:rocksdb_static>" VERBATIM)
  target_link_libraries(rocksdb_static INTERFACE ${libraries})
  target_compile_features(rocksdb_static INTERFACE cxx_std_${CMAKE_CXX_STANDARD})
endfunction()

function(cairn_program name)
  cmake_parse_arguments(P "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${P_SOURCES})
  target_link_libraries(${name} PRIVATE cairn_flags ${P_LIBRARIES} rocksdb -Wl,--as-needed gflags ${cairn_system_libraries})
  # --help names the file of each flag, wherever that lay.
  target_compile_options(${name} PRIVATE
    "-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=" "-fmacro-prefix-map=${ROCKSDB_TREE}/=rocksdb/")
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin" BUILD_RPATH "$ORIGIN/../lib"
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS ${name} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endfunction()

if(CAIRN_BUILD_TESTS)
  enable_testing()
  file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/test")
  add_library(cairn_test_main STATIC "${CMAKE_SOURCE_DIR}/test/testutil/main.cc")
  target_link_libraries(cairn_test_main PRIVATE cairn_flags GTest::gtest)
endif()
# After so many seconds a test counts as one that hangs: many times what the longest takes by itself, because the machine may be
# busy. The sanitizers take 5 to 15 times the time, and only the long tests' is near the limit.
set(cairn_timeout 900)
if(CAIRN_SANITIZE)
  set(cairn_timeout 9000)
endif()
# A folder's tests are one program, compiled a few files at a time, which takes a third of the time: the program is called
# table_ect_tests for the folder table/ect, and x_test is a target that builds it and a link in build/test that runs the tests of
# x_test.cc only. With CAIRN_TESTS_APART each is a program of its own.
function(cairn_test name)
  if(NOT CAIRN_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(T "ALONE" "SHARDS;GROUP" "LIBRARIES;LABELS;ARGUMENTS" ${ARGN})
  if(NOT T_UNPARSED_ARGUMENTS)
    set(T_UNPARSED_ARGUMENTS ${name}.cc)
  endif()
  list(LENGTH T_UNPARSED_ARGUMENTS sources)
  if(CAIRN_TESTS_APART OR T_ALONE OR sources GREATER 1)
    cairn_test_program(${name} "GTest::gtest_main" ${T_LIBRARIES})
    target_sources(${name} PRIVATE ${T_UNPARSED_ARGUMENTS})
  else()
    file(RELATIVE_PATH program "${CMAKE_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
    string(MAKE_C_IDENTIFIER "${program}_tests" program)
    if(NOT TARGET ${program})
      cairn_test_program(${program} cairn_test_main ${T_LIBRARIES})
      cairn_unity(${program})
      set_target_properties(${program} PROPERTIES UNITY_BUILD_MODE GROUP)
    endif()
    cairn_add_to_test_program(${program} ${T_UNPARSED_ARGUMENTS} "${T_GROUP}" ${T_LIBRARIES})
    add_custom_target(${name} DEPENDS ${program})
    file(CREATE_LINK ${program} "${CMAKE_BINARY_DIR}/test/${name}" SYMBOLIC)
  endif()
  if(NOT T_SHARDS)
    set(T_SHARDS 1)
  endif()
  foreach(shard RANGE 1 ${T_SHARDS})
    set(test ${name})
    set(environment "CAIRN_BUILD_DIR=${CMAKE_BINARY_DIR};CAIRN_SOURCE_DIR=${CMAKE_SOURCE_DIR}")
    if(T_SHARDS GREATER 1)
      set(test ${name}_${shard})
      math(EXPR index "${shard} - 1")
      list(APPEND environment "GTEST_TOTAL_SHARDS=${T_SHARDS}" "GTEST_SHARD_INDEX=${index}")
    endif()
    add_test(NAME ${test} COMMAND ${CMAKE_CROSSCOMPILING_EMULATOR} "${CMAKE_BINARY_DIR}/test/${name}" ${T_ARGUMENTS})
    set_tests_properties(${test} PROPERTIES TIMEOUT ${cairn_timeout} LABELS "${T_LABELS}" ENVIRONMENT "${environment}")
  endforeach()
endfunction()

function(cairn_test_program name main)
  add_executable(${name})
  target_link_libraries(${name} PRIVATE cairn_flags rocksdb ${ARGN} GTest::gtest ${main} Threads::Threads)
  # These programs wait for RocksDB; optimising them further would only make them slow to compile.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/test")
endfunction()

# At most so many files are compiled together, so that two cores have something to do and memory suffices.
set(cairn_test_unit 8)
function(cairn_add_to_test_program program source group)
  target_sources(${program} PRIVATE ${source})
  target_link_libraries(${program} PRIVATE ${ARGN})
  get_property(count GLOBAL PROPERTY CAIRN_TESTS_${program}_${group})
  if(NOT count)
    set(count 0)
  endif()
  math(EXPR unit "${count} / ${cairn_test_unit}")
  math(EXPR count "${count} + 1")
  set_property(GLOBAL PROPERTY CAIRN_TESTS_${program}_${group} ${count})
  set_property(SOURCE ${source} PROPERTY UNITY_GROUP "${group}_${unit}")
endfunction()

function(cairn_bench name)
  if(NOT CAIRN_BUILD_BENCHMARKS)
    return()
  endif()
  cmake_parse_arguments(B "PLAIN" "" "LIBRARIES" ${ARGN})
  if(NOT B_UNPARSED_ARGUMENTS)
    set(B_UNPARSED_ARGUMENTS ${name}.cc)
  endif()
  if(NOT B_PLAIN)
    list(APPEND B_LIBRARIES benchmark::benchmark benchmark::benchmark_main)
  endif()
  add_executable(${name} ${B_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE cairn_flags rocksdb ${B_LIBRARIES} Threads::Threads)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")
endfunction()

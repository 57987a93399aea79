# What `cmake --install build` puts where: a tree that can be moved as a whole, and that a consumer finds by
# find_package(Cairn) or `pkg-config cairn`, or as RocksDB: find_package(RocksDB), `pkg-config rocksdb`.

include(CMakePackageConfigHelpers)

install(TARGETS rocksdb rocksdb_static EXPORT CairnTargets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(TARGETS rocksdb_second_name LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
# For the JVM, if they were built (java/CMakeLists.txt).
if(TARGET rocksdbjni)
  install(TARGETS rocksdbjni LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" OPTIONAL)
  install(FILES "${CMAKE_BINARY_DIR}/java/rocksdbjni-${ROCKSDB_VERSION}-cairn.jar" DESTINATION "${CMAKE_INSTALL_DATADIR}/java" OPTIONAL)
endif()
install(DIRECTORY "${ROCKSDB_SOURCE}/include/rocksdb" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(DIRECTORY "${CMAKE_SOURCE_DIR}/include/cairn" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
install(FILES "${CMAKE_SOURCE_DIR}/LICENSE" "${CMAKE_SOURCE_DIR}/NOTICE" "${ROCKSDB_SOURCE}/LICENSE.leveldb" DESTINATION "${CMAKE_INSTALL_DOCDIR}")

set(cairn_cmake_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Cairn")
install(EXPORT CairnTargets NAMESPACE Cairn:: DESTINATION "${cairn_cmake_dir}")
configure_package_config_file("${CMAKE_SOURCE_DIR}/packaging/CairnConfig.cmake.in" "${CMAKE_BINARY_DIR}/CairnConfig.cmake"
  INSTALL_DESTINATION "${cairn_cmake_dir}")
write_basic_package_version_file("${CMAKE_BINARY_DIR}/CairnConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/CairnConfig.cmake" "${CMAKE_BINARY_DIR}/CairnConfigVersion.cmake"
  DESTINATION "${cairn_cmake_dir}")

# The folder that RocksDB's own package has.
set(rocksdb_cmake_dir "${CMAKE_INSTALL_LIBDIR}/cmake/rocksdb")
configure_package_config_file("${CMAKE_SOURCE_DIR}/packaging/RocksDBConfig.cmake.in" "${CMAKE_BINARY_DIR}/RocksDBConfig.cmake"
  INSTALL_DESTINATION "${rocksdb_cmake_dir}")
write_basic_package_version_file("${CMAKE_BINARY_DIR}/RocksDBConfigVersion.cmake"
  VERSION "${ROCKSDB_VERSION}" COMPATIBILITY SameMajorVersion)
install(FILES "${CMAKE_BINARY_DIR}/RocksDBConfig.cmake" "${CMAKE_BINARY_DIR}/RocksDBConfigVersion.cmake"
  DESTINATION "${rocksdb_cmake_dir}")

# What a static link needs besides the archive, as linker flags.
get_target_property(libraries rocksdb_static INTERFACE_LINK_LIBRARIES)
set(cairn_pc_private "")
foreach(library ${libraries})
  if(library STREQUAL "Threads::Threads")
    string(APPEND cairn_pc_private " -pthread")
  elseif(library MATCHES "^-")
    string(APPEND cairn_pc_private " ${library}")
  else()
    string(APPEND cairn_pc_private " -l${library}")
  endif()
endforeach()
string(STRIP "${cairn_pc_private} -lstdc++ -lm" cairn_pc_private)
file(RELATIVE_PATH cairn_pc_prefix "/x/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/x")
string(REGEX REPLACE "/$" "" cairn_pc_prefix "${cairn_pc_prefix}")
foreach(name cairn rocksdb)
  configure_file("${CMAKE_SOURCE_DIR}/packaging/${name}.pc.in" "${CMAKE_BINARY_DIR}/${name}.pc" @ONLY)
endforeach()
install(FILES "${CMAKE_BINARY_DIR}/cairn.pc" "${CMAKE_BINARY_DIR}/rocksdb.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

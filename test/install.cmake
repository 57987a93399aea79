# Installs this build and builds programs against what was installed. A sanitizer's build is not one to install.
if(CAIRN_BUILD_TESTS AND NOT CAIRN_SANITIZE)
  set(installed "${CMAKE_BINARY_DIR}/test/installed")
  add_test(NAME install COMMAND "${CMAKE_COMMAND}" --install "${CMAKE_BINARY_DIR}" --prefix "${installed}")
  set_tests_properties(install PROPERTIES FIXTURES_SETUP installed)
  foreach(how cmake pkg-config)
    add_test(NAME consumer_${how}
      COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/consumer/run" ${how} "${installed}" "${CMAKE_BINARY_DIR}/test/consumer_${how}")
    set_tests_properties(consumer_${how} PROPERTIES FIXTURES_REQUIRED installed TIMEOUT ${cairn_timeout}
      ENVIRONMENT "CXX=${CMAKE_CXX_COMPILER}")
  endforeach()
endif()

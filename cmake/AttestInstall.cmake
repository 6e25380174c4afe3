# What `cmake --install` copies, in two components: attest-runtime is the program and what it finds relative to itself,
# so that the prefix may be moved; attest-development is what find_package(attest) and plug-ins need.
include(CMakePackageConfigHelpers)

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/attest")

install(TARGETS attest EXPORT attest-targets DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT attest-runtime)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT attest-runtime)
install(DIRECTORY docs examples DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT attest-runtime
        PATTERN findings EXCLUDE PATTERN __pycache__ EXCLUDE)

install(TARGETS attest_headers EXPORT attest-targets)
install(DIRECTORY include/attest DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT attest-development
        FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(EXPORT attest-targets NAMESPACE attest:: DESTINATION "${package_folder}" COMPONENT attest-development)
configure_package_config_file(cmake/attest-config.cmake.in "${PROJECT_BINARY_DIR}/attest-config.cmake"
                              INSTALL_DESTINATION "${package_folder}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/attest-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/attest-config.cmake" "${PROJECT_BINARY_DIR}/attest-config-version.cmake"
              cmake/AttestTesting.cmake cmake/AttestDiscoverTests.cmake
        DESTINATION "${package_folder}" COMPONENT attest-development)

# What `cmake --install` copies, in two components: attest-runtime is the program and what it finds relative to itself,
# so that the prefix may be moved; attest-development is what find_package(attest) and plug-ins need.
include(CMakePackageConfigHelpers)

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/attest")

install(TARGETS attest EXPORT attest-targets DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT attest-runtime)
install(DIRECTORY "${PROJECT_BINARY_DIR}/man/" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT attest-runtime
  FILES_MATCHING PATTERN "*.1")
install(FILES "${PROJECT_BINARY_DIR}/man/attest.bash" RENAME attest COMPONENT attest-runtime
  DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
install(FILES "${PROJECT_BINARY_DIR}/man/attest.fish" COMPONENT attest-runtime
  DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
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
              cmake/AttestTesting.cmake cmake/AttestDiscoverTests.cmake cmake/AttestSkippedTests.cmake
        DESTINATION "${package_folder}" COMPONENT attest-development)

# `cpack -G DEB` in the build folder: one package of all that is installed, which depends on the libraries it was linked against.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME attest)
set(CPACK_PACKAGE_CONTACT "attest <attest@example.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3-numpy")  # subjects in Python
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "cmake")            # attest_add_property_tests()
include(CPack)

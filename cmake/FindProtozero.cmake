# protozero, protobuf's wire format: the target attest_deps::protozero. Headers alone; Debian's package has no CMake file.
find_path(PROTOZERO_INCLUDE_DIR protozero/pbf_reader.hpp)
mark_as_advanced(PROTOZERO_INCLUDE_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Protozero REQUIRED_VARS PROTOZERO_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libprotozero-dev (Debian)")

if(Protozero_FOUND AND NOT TARGET attest_deps::protozero)
  add_library(attest_deps::protozero INTERFACE IMPORTED)
  target_include_directories(attest_deps::protozero SYSTEM INTERFACE "${PROTOZERO_INCLUDE_DIR}")
endif()

# Arb, ball arithmetic: the target attest_deps::arb. Debian 12 has it as a library of its own beside FLINT (libflint-arb-dev,
# libflint-dev); from FLINT 3 on it is part of FLINT. ball.hpp finds the header either way.
find_library(ARB_FLINT_LIBRARY flint)
find_library(ARB_GMP_LIBRARY gmp)  # inline functions of its headers call GMP
find_library(ARB_LIBRARY NAMES flint-arb arb)
find_path(ARB_INCLUDE_DIR arb.h PATH_SUFFIXES flint)
mark_as_advanced(ARB_FLINT_LIBRARY ARB_GMP_LIBRARY ARB_LIBRARY ARB_INCLUDE_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Arb REQUIRED_VARS ARB_FLINT_LIBRARY ARB_GMP_LIBRARY ARB_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libflint-dev and libflint-arb-dev (Debian 12), or libflint-dev (FLINT 3)")

if(Arb_FOUND AND NOT TARGET attest_deps::arb)
  add_library(attest_deps::arb INTERFACE IMPORTED)
  cmake_path(GET ARB_INCLUDE_DIR FILENAME folder)
  if(folder STREQUAL "flint")  # FLINT 3: <flint/arb.h>
    cmake_path(GET ARB_INCLUDE_DIR PARENT_PATH ARB_INCLUDE_DIR)
  endif()
  target_include_directories(attest_deps::arb SYSTEM INTERFACE "${ARB_INCLUDE_DIR}")
  target_link_libraries(attest_deps::arb INTERFACE "${ARB_FLINT_LIBRARY}" "${ARB_GMP_LIBRARY}")
  if(ARB_LIBRARY)
    target_link_libraries(attest_deps::arb INTERFACE "${ARB_LIBRARY}")
  endif()
endif()

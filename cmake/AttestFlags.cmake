# Flags every target is compiled with.
#
# The numbers must not depend on the compiler's taste: contraction of a*b+c into a fused
# multiply-add is off everywhere, and no flag of the fast-math family is ever added.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, RelWithDebInfo or Debug" FORCE)
elseif(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)  # a user's project keeps its own
endif()

# Line tables only: stack traces stay readable and the build stays small and quick.
foreach(lang C CXX)
  set(CMAKE_${lang}_FLAGS_RELWITHDEBINFO "-O2 -g1")
  set(CMAKE_${lang}_FLAGS_RELEASE "-O2 -DNDEBUG")
  set(CMAKE_${lang}_FLAGS_DEBUG "-O1 -g1")
endforeach()
# GCC 12 warns of overlapping copies inside std::string at -O3, where there are none (GCC bug 105651).
string(APPEND CMAKE_CXX_FLAGS_RELEASE " -Wno-restrict")

add_compile_options(-ffp-contract=off -Wall -Wextra -Wconversion)

if(ATTEST_NATIVE)
  add_compile_options(-march=native)
endif()

# A release is built once and whole, and several sources at a time are quicker; elsewhere each is compiled alone, which an
# edit waits for, and shows what it forgets to include.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(several ON)
endif()
option(ATTEST_UNITY "Compile several sources at a time (default: in a release)" ${several})

if(ATTEST_SANITIZE)
  add_compile_options(-fsanitize=${ATTEST_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${ATTEST_SANITIZE})
endif()

if(ATTEST_BUILD_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "ATTEST_BUILD_FUZZ needs clang, for libFuzzer: cmake --preset fuzz")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# GCC's own garbage collector takes a tenth of the time of a large source; below half a gigabyte it need not run.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:--param=ggc-min-expand=1000;--param=ggc-min-heapsize=500000>")
endif()

# ccache sees paths relative to the build folder, so that a second clone of this repository finds what the first compiled; what
# compilers say names files in full all the same. The user's own configuration of ccache stays as it is otherwise.
find_program(ATTEST_CCACHE ccache)
mark_as_advanced(ATTEST_CCACHE)
if(ATTEST_CCACHE)
  set(launcher env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_ABSSTDERR=1 "${ATTEST_CCACHE}")
  foreach(lang C CXX)
    if(NOT CMAKE_${lang}_COMPILER_LAUNCHER)
      set(CMAKE_${lang}_COMPILER_LAUNCHER "${launcher}")
    endif()
  endforeach()
endif()

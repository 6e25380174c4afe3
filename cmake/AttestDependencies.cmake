# Third-party libraries, all of them Debian 12 packages (docs/dependencies.md says what each is for).
#
# Link: fmt::fmt  CLI11::CLI11  nlohmann_json::nlohmann_json  tomlplusplus::tomlplusplus  ZLIB::ZLIB
#       OpenMP::OpenMP_CXX  attest_deps::rapidcheck  attest_deps::arb (certify/ alone)
#       attest_deps::protozero (graph/ alone)
#       Eigen3::Eigen
#       in tests GTest::gtest, in bench benchmark::benchmark

find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(ZLIB REQUIRED)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)

# The package exports a target without a namespace; the alias makes a misspelling an error
# instead of a linker flag.
find_package(rapidcheck REQUIRED)
add_library(attest_deps::rapidcheck ALIAS rapidcheck)

find_package(Arb REQUIRED)
find_package(Protozero REQUIRED)

if(ATTEST_BUILD_TESTS)
  find_package(GTest REQUIRED)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
endif()
if(ATTEST_BUILD_BENCH)
  find_package(benchmark REQUIRED)
endif()

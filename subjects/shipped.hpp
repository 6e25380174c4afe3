#pragma once
#include <filesystem>

// Where the parts of attest lie that are no library: beside an installed program, or in the build that made this one.
namespace attest {

std::filesystem::path plugin_host();    // the program attest-plugin-host
std::filesystem::path python_folder();  // attest_worker.py and the package attest

}  // namespace attest

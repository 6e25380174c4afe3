#pragma once
#include <filesystem>
#include <string_view>

// The folders of the parts of attest that are no library: beside an installed program, or in the build that made this
// one.
namespace attest {

std::filesystem::path plugin_host();    // the program attest-plugin-host
std::filesystem::path python_folder();  // attest_worker.py and the package attest
std::filesystem::path
adapter_folder();  // adapters in C++: subjects.txt and, each in a folder, what they are built from

// The plug-in of an adapter in C++, by its prefix: PREFIX.so in $ATTEST_ADAPTERS, else where ./run builds it or beside
// an installed program. It need not be there: the libraries in it are large and come when they are first asked for.
std::filesystem::path adapter_plugin(std::string_view prefix);

}  // namespace attest

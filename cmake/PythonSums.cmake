# cmake -DFOLDER=... -DOUT=... -P PythonSums.cmake: a C++ header with what starts the Python worker, and the SHA-256 of each module.
file(GLOB_RECURSE modules RELATIVE "${FOLDER}" "${FOLDER}/attest/*.py")
list(SORT modules)
set(sums "")
foreach(module IN LISTS modules)
  file(SHA256 "${FOLDER}/${module}" sum)
  string(APPEND sums "${sum} ${module}\n")
endforeach()
file(READ "${FOLDER}/attest_worker.py" starter)
file(WRITE "${OUT}" "#pragma once\n#include <string_view>\n\nnamespace attest {\n
inline constexpr std::string_view python_starter = R\"attest(${starter})attest\";\n
inline constexpr std::string_view python_sums = R\"attest(${sums})attest\";\n\n}  // namespace attest\n")

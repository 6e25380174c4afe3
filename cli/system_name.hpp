#pragma once
#include <string>

#include <sys/utsname.h>

namespace attest::cli {

// "Linux x86_64".
inline std::string system_name() {
  utsname names{};
  if (uname(&names) != 0) return "an unknown system";
  return std::string(names.sysname) + " " + names.machine;
}

}  // namespace attest::cli

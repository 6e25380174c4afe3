#pragma once
#include <string>

#include "core/subject.hpp"

namespace attest {

// The description that a plug-in or a worker gives of one of its subjects.
struct Offer {
  std::string name, version, describe;  // describe: JSON (docs/plugin.md)
  std::string error;                    // why it cannot be used, if it cannot
  std::string libraries{};              // "python 3.11.2, numpy 2.3.4": what the process has loaded
  std::int64_t line = 0;                // where its function begins in its file; 0: not known
};

// Reads an offer. Throws Error(no_subject) naming the key of `describe` that is unknown or has a wrong value, and
// Error(usage) if the subject offers only ops that are not tested yet. `display_name`: the name on the command line.
SubjectInfo subject_info(const Offer& offer, const std::string& display_name);

}  // namespace attest

#pragma once
#include <filesystem>
#include <string>

#include "core/subject.hpp"

namespace attest {

// The origin of a subject that attest did not bring along.
struct Origin {
  std::filesystem::path file;  // the absolute path of the script, plug-in or program; empty for a shipped adapter
  std::string function;        // the subject's name there
};

// A factory of such subjects.
class FromFile : public SubjectFactory {
 public:
  [[nodiscard]] const Origin& origin() const noexcept { return origin_; }

 protected:
  Origin origin_;
};

// Empty for what lies in no file of its own.
inline Origin origin_of(const SubjectFactory& factory) {
  const auto* from_file = dynamic_cast<const FromFile*>(&factory);
  return from_file != nullptr ? from_file->origin() : Origin{};
}

}  // namespace attest

#pragma once
#include <memory>

#include "core/subject.hpp"

namespace attest::engine {

// The subject as it is, of which `info` is said: another policy, or less that it takes.
std::unique_ptr<SubjectFactory> restated(std::unique_ptr<SubjectFactory> subject, SubjectInfo info);

}  // namespace attest::engine

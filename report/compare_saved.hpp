#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "core/verdict.hpp"

namespace attest::report {

// The lines of `attest compare` for one saved call, and the object that its --json has of it. `name`: the file's.
std::string saved_comparison_text(const std::string& name, const Verdict& verdict);
nlohmann::ordered_json saved_comparison_json(const std::string& name, const Verdict& verdict);

}  // namespace attest::report

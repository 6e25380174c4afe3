#pragma once
#include <functional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "engine/corpus.hpp"
#include "engine/explain/explain.hpp"

namespace attest::report {

// What `attest explain` prints: a screen at most.
std::string explanation_text(const engine::Entry& entry, const engine::Explanation& explanation);
// What `attest judge` prints of numbers that were saved. Nothing where nothing fails.
std::string saved_explanation_text(const engine::Explanation& explanation);
// Three lines at most, behind `label(NAME, TEXT)`: what it looks like, where, and what it fits. Empty where nothing is known.
std::string brief_text(const engine::Explanation& explanation,
                       const std::function<std::string(std::string_view, const std::string&)>& label);

// The object that --json writes, but for `exit`.
nlohmann::ordered_json explanation_json(const engine::Entry& entry, const engine::Explanation& explanation);

}  // namespace attest::report

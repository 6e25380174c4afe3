#pragma once
#include <functional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "engine/corpus.hpp"
#include "engine/explain/explain.hpp"

namespace attest::report {

// The text of `attest explain`: a screen at most.
std::string explanation_text(const engine::Entry& entry, const engine::Explanation& explanation);
// The text of `attest judge` for numbers that were saved. Nothing where nothing fails.
std::string saved_explanation_text(const engine::Explanation& explanation);
// Three lines at most, after `label(NAME, TEXT)`: the likely fault, the place, and the precision that fits. Empty where
// nothing is known.
std::string brief_text(const engine::Explanation& explanation,
                       const std::function<std::string(std::string_view, const std::string&)>& label);

// The object that --json writes, but for `exit`.
nlohmann::ordered_json explanation_json(const engine::Entry& entry, const engine::Explanation& explanation);

}  // namespace attest::report

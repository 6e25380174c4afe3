#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "generators/coverage.hpp"

namespace attest::report {

// The share of problems in which each region of each field is drawn, and each pair of regions, in percent; at most 100
// columns wide. Ends by naming what was never drawn.
std::string coverage_text(const Coverage& coverage);

// {fields: [{name, values: [{value, count}], missing_edges}], tables: [{name, cells: [{row, column, count,
// possible}]}], empty: [...]}.
nlohmann::ordered_json coverage_json(const Coverage& coverage);

}  // namespace attest::report

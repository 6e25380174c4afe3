#pragma once
#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "engine/grade/grade.hpp"

namespace attest::report {

// Says which part of its work an interrupted run has done, in one sentence without a full stop; empty for a whole run.
std::string interrupted_text(const engine::Grade& grade, const engine::GradeOptions& options);

// Tables for a terminal: the needs of the default campaign per fault, and the rules of others beside attest's verdict.
std::string grade_text(const engine::Grade& grade, const engine::GradeOptions& options);

// The object that --json writes, without `exit`.
nlohmann::ordered_json grade_json(const engine::Grade& grade, const engine::GradeOptions& options);

// The grade of one operation, and the options it was made with.
struct Graded {
  const engine::Grade& grade;
  const engine::GradeOptions& options;
};

// A picture for browsers, light and dark: a row per fault, those of one operation below those of another; a column for
// the campaign, per law and per rule; the colour says after how many problems, on a logarithmic scale. Well-formed XML.
std::string grade_svg(std::span<const Graded> all);

}  // namespace attest::report

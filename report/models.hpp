#pragma once
#include <ostream>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "models/campaign.hpp"
#include "models/judged.hpp"
#include "models/replay.hpp"
#include "report/observers.hpp"

namespace attest::report {

// The inputs of a model, before anything is asked: "model.onnx: 219 nodes; ids int64 [batch, length] as rows of a
// table; ...".
std::string model_text(const models::Part& model, const graph::Family& family, const std::filesystem::path& file);
// Parts that are held to proven bounds by themselves, and those that are not, with the reasons; "" of none. A line
// each.
std::string parts_text(const std::vector<models::KnownPart>& parts);
// Failures and findings on `out` while they happen, progress beside.
models::Observer models_observer(const TerminalOptions& options);
std::string summary_text(const models::Summary& summary, const Look& look = {});
nlohmann::ordered_json summary_json(const models::Summary& summary);
// The coverage as `attest stats --json` has it for kernels, but for combinations that cannot occur, which are not known
// here.
nlohmann::ordered_json coverage_json(const models::Coverage& coverage);
// Results that were got elsewhere: a line for the verdict and one for each output.
std::string judged_text(const models::JudgedOutputs& judged, const graph::Precision& precision, const Look& look = {});
nlohmann::ordered_json judged_json(const models::JudgedOutputs& judged, const graph::Precision& precision);
// The defects of a corpus: each with its simplest reproducer, as far as its file tells.
std::string triage_text(const std::vector<models::EntryDefect>& defects, const Look& look = {});
nlohmann::ordered_json triage_json(const std::vector<models::EntryDefect>& defects);
std::string_view name(models::Outcome outcome) noexcept;

}  // namespace attest::report

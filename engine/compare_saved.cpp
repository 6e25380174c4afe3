#include "engine/compare_saved.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/inputs.hpp"
#include "engine/check.hpp"
#include "properties/compare.hpp"
#include "properties/pair.hpp"
#include "properties/trial.hpp"

namespace attest::engine {
namespace {

namespace fs = std::filesystem;
using properties::Promised;
using properties::Result;
using properties::Trial;

constexpr std::string_view inputs_mark = ".inputs", outputs_mark = ".outputs";

bool has_mark(const fs::path& file, std::string_view mark) { return file.stem().native().ends_with(mark); }

// What was saved on the one side, what the subject gives now on the other.
class Comparison {
 public:
  Comparison(SavedCall call, const attest::Contract& saved, const attest::Contract& its, bool saved_first, bool bits)
      : problem_(std::move(call.problem)),
        inputs_(std::move(call.inputs)),
        contract_(saved),
        its_(its),
        saved_first_(saved_first),
        bits_(bits) {
    saved_.out = std::move(call.out);
    saved_.lse = std::move(call.lse);
    if (saved_.lse.present()) problem_.lse = saved_.lse.dtype() == DType::f64 ? LseOutput::f64 : LseOutput::f32;
  }

  Verdict once(Subject& subject) {
    Trial trial(problem_, inputs_.clone(), its_, subject);
    try {
      return against(trial);
    } catch (const properties::CallFailed& failed) {
      return failure_of(failed.result);
    } catch (const NotReserved& refused) {
      return Verdict::skip(std::string(unsupported_prefix) + refused.what());
    }
  }

 private:
  [[nodiscard]] const char* whose() const {
    return saved_first_ ? properties::peer_prefix : properties::subject_prefix;
  }

  Verdict against(Trial& trial) {
    const Result& result = trial.base();
    if (result.violation) {
      Evidence evidence = *result.violation;
      evidence.note = whose() + evidence.note;
      evidence.sides = properties::of_side(!saved_first_, saved_first_);
      return Verdict::fail(std::move(evidence));
    }
    const auto oracle = oracle::make_oracle(contract_, problem_, inputs_);
    const Promised saved{saved_.out, saved_.lse, contract_, *oracle};
    const Promised now{result.out, result.lse, its_, trial.oracle()};
    const Promised &a = saved_first_ ? saved : now, &b = saved_first_ ? now : saved;
    Verdict verdict = properties::held_together(problem_, a, b);
    // What was saved in another type has no bits to compare.
    if (!bits_ || is_finding(verdict.kind) || saved_.out.dtype() != result.out.dtype()) return verdict;
    const Result &first = saved_first_ ? saved_ : result, &second = saved_first_ ? result : saved_;
    Counts counts;
    auto differs = properties::difference(second, first, properties::Equality::bits, "not bitwise equal", counts);
    if (!differs) return verdict;
    differs->sides = properties::sides_of(differs->tensor == "lse" ? "lse" : "out", differs->index, a, b);
    return Verdict::fail(std::move(*differs), verdict.counts);
  }

  [[nodiscard]] Verdict failure_of(const CallResult& result) const {
    switch (result.status) {
      case CallStatus::unsupported:
        return Verdict::skip(std::string(unsupported_prefix) + result.message);
      case CallStatus::crash:
        return {VerdictKind::crash, whose() + result.message, {}, {}};
      case CallStatus::timeout:
        return {VerdictKind::timeout, whose() + result.message, {}, {}};
      default:
        return {VerdictKind::error, whose() + result.message, {}, {}};
    }
  }

  attest::Problem problem_;
  const Inputs inputs_;
  Result saved_;
  const attest::Contract &contract_, &its_;
  const bool saved_first_, bits_;
};

}  // namespace

std::vector<SavedFiles> saved_calls_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator walk(folder, error), end; !error && walk != end; walk.increment(error))
    if (walk->is_regular_file(error)) files.push_back(walk->path());
  if (error) throw usage_error(fmt::format("{} cannot be read: {}", folder.string(), error.message()));
  std::ranges::sort(files);
  std::vector<SavedFiles> calls;
  for (const fs::path& file : files) {
    const fs::path extension = file.extension();
    if ((extension != ".npz" && extension != ".json") || has_mark(file, outputs_mark)) continue;
    if (has_mark(file, inputs_mark)) {
      std::string stem = file.stem().string();
      stem.resize(stem.size() - inputs_mark.size());
      const fs::path outputs = file.parent_path() / (stem + std::string(outputs_mark) + extension.string());
      if (!std::ranges::count(files, outputs))
        throw usage_error(fmt::format("{} has no {} beside it", file.string(), outputs.filename().string()));
      calls.push_back({file, outputs});
    } else if (extension == ".npz") {
      calls.push_back({file, file});
    }
  }
  if (calls.empty())
    throw usage_error(
        fmt::format("{} holds no saved call: NAME.npz with what went in and what came out, or "
                    "NAME.inputs.npz with NAME.outputs.npz",
                    folder.string()));
  return calls;
}

Verdict compare_saved(SavedCall call, const attest::Contract& saved, Subject& subject, const attest::Contract& its,
                      bool saved_first, bool bits) {
  if (!subject.info().supports.lse) call.lse = {};
  Comparison comparison(std::move(call), saved, its, saved_first, bits);
  Verdict seen = comparison.once(subject);
  if (!is_finding(seen.kind) || !subject.renew()) return seen;
  Verdict again = comparison.once(subject);
  return is_finding(again.kind) ? std::move(again) : flaky_verdict(seen, "a fresh instance does not show it");
}

}  // namespace attest::engine

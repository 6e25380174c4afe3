#include "engine/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "engine/explain/explain.hpp"
#include "oracle/outcome.hpp"

namespace attest::engine {
namespace {

// `first` is the element at which the verdict ended: the rows surveyed may not have it.
Survey survey_of(ops::Exchange& call, const Contract& contract, const Evidence& first, Index work) {
  Survey survey;
  survey.worst = first;
  const auto error_of = [](const Evidence& e) {
    const double error = std::fabs(e.got - e.expected);
    return std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
  };
  survey.error = error_of(first);
  const auto walked = call.walk(contract, work, [&](const ops::Permitted& element) {
    switch (element.outcome) {
      case oracle::Outcome::inside:
        ++survey.inside;
        return;
      case oracle::Outcome::undetermined:
        ++survey.undetermined;
        return;
      case oracle::Outcome::outside:
        break;
    }
    ++survey.outside;
    survey.error = std::max(survey.error, error_of(*element.evidence));
    if (element.evidence->ratio > survey.worst.ratio) survey.worst = *element.evidence;
  });
  survey.rows = walked.rows;
  survey.all_rows = walked.all_rows;
  return survey;
}

// The words of `other` in place of those in `words`. Both must outlive it.
ops::SavedWords with(const ops::SavedWords& words, const ops::OtherCall& other) {
  const auto said = [&other](std::string_view key) {
    return std::ranges::find(other.said, key, &std::pair<std::string, std::optional<std::string>>::first);
  };
  ops::SavedWords changed = words;
  changed.text = [&, said](std::string_view key) {
    const auto found = said(key);
    return found == other.said.end() ? words.text(key) : found->second;
  };
  changed.flag = [&, said](std::string_view key) {
    const auto found = said(key);
    return found == other.said.end() ? words.flag(key) : found->second.has_value();
  };
  changed.integer = [&, said](std::string_view key, std::uint64_t lo, std::uint64_t hi) {
    return said(key) == other.said.end() ? words.integer(key, lo, hi) : std::nullopt;
  };
  return changed;
}

// The changes of `other` to `words` as options of a command line; empty where there are none.
std::string options_of(const ops::SavedWords& words, const ops::OtherCall& other) {
  std::string with, without;
  for (const auto& [key, value] : other.said) {
    if (value && value->empty() ? words.flag(key) : value && words.text(key) == value) continue;
    if (value)
      with += fmt::format("{}--{}{}{}", with.empty() ? "" : " ", key, value->empty() ? "" : " ", *value);
    else if (words.text(key) || words.flag(key))
      without += fmt::format("{}--{}", without.empty() ? "without " : " ", key);
  }
  return with + (with.empty() || without.empty() ? "" : ", ") + without;
}

// Tells whether every element is judged and inside, by intervals that say something of an error as large.
bool holds(ops::Exchange& call, const Contract& contract, double error) {
  const Verdict verdict = call.judge(contract);
  if (verdict.kind != VerdictKind::pass || verdict.counts.undetermined > 0) return false;
  double longest = 0;
  call.walk(contract, most_survey_work, [&](const ops::Permitted& element) {
    if (element.number && !element.nonfinite) longest = std::max(longest, element.hi - element.lo);
  });
  return longest * Fit::least_fill <= error;
}

}  // namespace

OtherCalls judge_other_calls(const ops::Op& op, const std::vector<NamedArray>& inputs,
                             const std::vector<NamedArray>& outputs, const ops::SavedWords& words,
                             const Contract& contract, const Judgement& failed, double seconds) {
  OtherCalls found;
  const auto start = std::chrono::steady_clock::now();
  const std::vector<ops::OtherCall> others = op.other_calls(words);
  std::vector<const ops::OtherCall*> held;
  for (const ops::OtherCall& other : others) {
    std::string options = options_of(words, other);
    const auto says_more = [&](const ops::OtherCall* one) {
      return std::ranges::all_of(
          one->said, [&](const auto& word) { return std::ranges::find(other.said, word) != other.said.end(); });
    };
    if (options.empty() || std::ranges::any_of(held, says_more) ||
        std::ranges::find(found.held, options, &HeldIf::options) != found.held.end())
      continue;
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > seconds) {
      found.complete = false;
      break;
    }
    try {
      const ops::SavedCall call = op.saved_call(inputs, outputs, policy_of(contract), with(words, other));
      if (!holds(*call.exchange, contract, failed.survey.value().error)) continue;
      held.push_back(&other);
      found.held.push_back({other.words, std::move(options)});
    } catch (const Error& error) {
      if (error.exit() != Exit::usage) throw;  // no call that these arrays may be of
    }
  }
  return found;
}

Exit Judgement::exit() const noexcept {
  if (verdict.kind == VerdictKind::fail) return Exit::found;
  return verdict.kind == VerdictKind::pass ? Exit::held : Exit::incomplete;
}

Judgement judge(ops::Exchange& call, const Contract& contract, Index survey_work) {
  Judgement judgement;
  judgement.verdict = call.judge(contract);
  if (judgement.verdict.kind == VerdictKind::fail)
    judgement.survey = survey_of(call, contract, judgement.verdict.evidence.value(), survey_work);
  return judgement;
}

}  // namespace attest::engine

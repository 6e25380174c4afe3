#include "engine/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "engine/bucket.hpp"
#include "engine/check.hpp"
#include "engine/explain/explain.hpp"
#include "engine/failure.hpp"
#include "engine/file.hpp"
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

// Tells whether two tensors of one shape hold the same numbers; tensors of two shapes are not compared.
bool equal(const Tensor& a, const Tensor& b) {
  if (!std::ranges::equal(a.shape(), b.shape())) return true;
  bool same = true;
  for_each_index(a.shape(), [&](Index i, Index j, Index k, Index l) {
    const double x = a.at(i, j, k, l), y = b.at(i, j, k, l);
    same = same && (x == y ? std::signbit(x) == std::signbit(y) : std::isnan(x) && std::isnan(y));
  });
  return same;
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

Verdict judged_again(const Entry& entry) {
  if (!entry.evidence) throw usage_error("the entry is of saved numbers, and names none");
  const Evidence& witness = *entry.evidence;
  const auto call = entry.problem.op().exchange(entry.problem);
  const std::vector<ops::NamedTensor> outputs = call->outputs();
  const auto output = std::ranges::find(outputs, witness.tensor, &ops::NamedTensor::name);
  bool there = output != outputs.end();
  for (std::size_t axis = 0; there && axis < witness.index.size(); ++axis) {
    const auto shape = output->tensor->shape();
    there = witness.index[axis] >= 0 && witness.index[axis] < (axis < shape.size() ? shape[axis] : 1);
  }
  if (!there) throw usage_error(fmt::format("a call of the problem has no such element of {}", witness.tensor));
  const attest_tensor view = output->tensor->view();
  const auto& at = witness.index;
  store(view, at[0], at[1], at[2], at[3], witness.got);
  const double stored = load(view, at[0], at[1], at[2], at[3]);
  if (stored != witness.got && !(std::isnan(stored) && std::isnan(witness.got)))
    throw usage_error(fmt::format("{} is of a type that does not hold the number {}", witness.tensor, witness.got));
  const ops::Permitted element = call->element(entry.contract, witness.tensor, witness.index);
  if (element.outcome == oracle::Outcome::outside) return Verdict::fail(*element.evidence, {.judged = 1});
  return element.outcome == oracle::Outcome::inside
             ? Verdict::pass({.judged = 1})
             : Verdict::vacuous("the bound permits any number there", {.undetermined = 1});
}

std::filesystem::path store_judged(const ops::SavedCall& call, const Contract& contract, const Judgement& failed,
                                   const std::filesystem::path& outputs, const std::filesystem::path& corpus) {
  const ops::Exchange& saved = *call.exchange;
  const Op& op = saved.problem().op();
  Entry entry;
  entry.subject = "saved:" + file_name_of(outputs.filename().string());
  entry.property = policy_bound_name;
  entry.contract = contract;
  entry.policy_given = true;
  entry.attest_version = attest_version();
  entry.evidence = failed.verdict.evidence.value();
  entry.problem = op.saved_problem(saved, *entry.evidence, corpus / file_name_of(entry.subject));
  const auto made = op.exchange(entry.problem);
  for (const ops::NamedTensor& input : saved.inputs())
    for (const ops::NamedTensor& again : made->inputs())
      if (again.name == input.name && !equal(*again.tensor, *input.tensor))
        throw usage_error(fmt::format("{} of the call is of a type that no problem has", input.name));
  const Verdict verdict = judged_again(entry);
  if (verdict.kind != VerdictKind::fail)
    throw usage_error(
        fmt::format("what else was saved of the call is needed to see that {} is wrong", entry.evidence->tensor));
  entry.evidence = verdict.evidence;
  entry.reason = verdict.reason;
  entry.bucket = bucket_of(key_of(entry.property, verdict), entry.subject, policy_of(contract), entry.problem);
  return write_entry(entry, corpus);
}

}  // namespace attest::engine

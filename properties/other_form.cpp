// other-form: the same problem said in another of the subject's forms gives the same result, within both enclosures.
//
// A problem with forms is asked again with the first value of each; one without any with another value of one of them.
// The mathematical problem is the very same; the promises of a form may differ, and then each result is held to its own
// contract. Where a contract leaves a result open (a row without keys, an overflow), two forms that give different
// classes are no defect by contract: a warning. Catches a path of a library that forgets an argument, and that others
// take from it.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <vector>

#include "core/inputs.hpp"
#include "properties/compare.hpp"
#include "properties/derive.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

std::vector<const FormOffer*> with_a_choice(const Supports& supports) {
  std::vector<const FormOffer*> offers;
  for (const FormOffer& offer : supports.forms)
    if (offer.values.size() > 1) offers.push_back(&offer);
  return offers;
}

Problem said_otherwise(Problem p, const Supports& supports) {
  if (!p.forms.empty()) {
    p.forms.clear();
    return p;
  }
  const std::vector<const FormOffer*> offers = with_a_choice(supports);
  const FormOffer& offer = *offers[below(draw(p, 171), offers.size())];
  set_form(p.forms, offer, offer.values[1 + below(draw(p, 172), offer.values.size() - 1)]);
  return p;
}

// Returns the sentences of the documents about the forms in which two calls differ, the other's first, and about the
// result that is left open.
std::string in_their_words(const SubjectInfo& info, const Problem& p, const Problem& other) {
  std::vector<Quote> quotes;
  for (const FormChoice& said : other.forms.empty() ? p.forms : other.forms) {
    const auto offer = std::ranges::find(info.supports.forms, said.name, &FormOffer::name);
    for (const Problem* one : {&other, &p})
      std::ranges::move(quotes_on_form(info.documents, said.name, form_value(*offer, one->forms)),
                        std::back_inserter(quotes));
  }
  constexpr std::string_view open[] = {"empty_row", "nan"};
  std::ranges::copy_if(info.documents, std::back_inserter(quotes),
                       [&](const Quote& quote) { return std::ranges::find(open, quote.about) != std::end(open); });
  std::string text;
  for (const Quote& quote : quotes) text += "; " + quote.about + ": " + quote.text;
  return text;
}

std::string in_words(const Problem& p) {
  if (p.forms.empty()) return "the same call in its first forms";
  return "the same call with form." + p.forms.front().name + "=" + p.forms.front().value;
}

Reason no_other_form(const Problem& p, const Contract&, const SubjectInfo& info) {
  if (p.b * p.hq * p.lq * p.dv == 0) return "no output elements";
  if (with_a_choice(info.supports).empty()) return "the subject has one form";
  return std::nullopt;
}

// Returns the first judged element that a contract leaves open, and that is a number in one form alone or not the same
// NaN or infinity.
std::optional<Evidence> disagreement(Trial& trial, const Tensor& out, const std::string& other) {
  const auto alike = [](double x, double y) {
    return std::isfinite(x) ? std::isfinite(y) : std::isnan(x) ? std::isnan(y) : x == y;
  };
  for (const Index row : judged_rows(trial.problem())) {
    const auto [b, h, i] = row_index(trial.problem(), row);
    for (Index c = 0; c < trial.problem().dv; ++c) {
      const double x = trial.base().out.at(b, h, i, c), y = out.at(b, h, i, c);
      if (!alike(x, y))
        return exact_evidence({b, h, i, c}, x, y, "forms disagree where the contract leaves it open: " + other);
    }
  }
  return std::nullopt;
}

Verdict check_other_form(Trial& trial) {
  const Problem& p = trial.problem();
  const SubjectInfo& info = trial.subject().info();
  const Problem other = said_otherwise(p, info.supports);
  Inputs inputs = trial.inputs().clone();
  inputs.form = forms_json(other.forms);
  trial.base();
  const Result result = trial.run(inputs, other);
  if (result.violation) return Verdict::fail(*result.violation);
  const std::string name = in_words(other);
  Verdict verdict;
  if (info.form_contracts.empty() || info.contract(p.dtype, other.forms) == info.contract(p.dtype, p.forms)) {
    verdict = within_enclosures(trial, result.out, result.lse, name);
  } else {
    const Contract contract = info.contract(p.dtype, other.forms);
    const auto promised = oracle::make_oracle(contract, other, inputs);
    const Counts counts = trial.judgement().counts;
    if (auto evidence = first_departure(trial, {other, result.out, result.lse, *promised, name, &contract}))
      verdict = Verdict::fail(std::move(*evidence), counts);
    else
      verdict = held(counts);
  }
  if (verdict.kind == VerdictKind::fail) return verdict;
  if (auto evidence = disagreement(trial, result.out, name + in_their_words(info, p, other))) {
    verdict.kind = VerdictKind::warn;
    verdict.reason = "forms disagree where the contract leaves it open";
    verdict.evidence = std::move(evidence);
  }
  return verdict;
}

}  // namespace

Property other_form() {
  return {"other-form",
          "|f(x) - f(x')| <= hi - lo, x' = x said in another form",
          "whatever form a call is said in, it means the same; where the contract leaves a result open, forms that "
          "disagree are a warning",
          Kind::bound,
          no_other_form,
          check_other_form};
}

}  // namespace attest::properties

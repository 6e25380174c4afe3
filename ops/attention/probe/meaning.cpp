// Probes the meaning of options: scale, softcap, bias, heads, the log-sum-exp, and NaN in the inputs.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "ops/attention/probe/parts.hpp"

namespace attest::ops::of_attention {
namespace {

using probing::near;

// The score of the first key against the second, whose own is 0, and what it may mean; the first is what is promised.
ProbeRow by_score(const Asking& asking, std::string stage, Problem p, const std::vector<Meaning>& meanings) {
  set_values(p, 0, 1);
  const Shown shown = asking.ask(p);
  std::string observed = shown.done() ? probing::meaning_of(logit(shown.out()), meanings, "a score of ") : "";
  return held_row(std::move(stage), meanings.front().words, std::move(observed), shown);
}

std::optional<Problem> of_width(const Asking& asking, Index width) {
  Problem p = asking.maker.blank(1, 2, width, 1);
  if (p.lk % 2 != 0) return std::nullopt;
  set_q(p, 0, 0, 1);
  return p;
}

// ---- scale ----------------------------------------------------------------------------------------------------------

void scales(const Asking& asking, std::vector<ProbeRow>& rows) {
  constexpr double peak = 6;
  auto p = of_width(asking, 16);
  if (!p) return;
  set_keys(*p, 0, 0, peak);
  const auto d = static_cast<double>(p->d);
  const double usual = 1 / std::sqrt(d);
  {
    Problem q = *p;
    q.scale.reset();
    rows.push_back(by_score(asking, "default scale", q, {{peak * usual, "1/sqrt(d)"}, {peak, "1"}, {peak / d, "1/d"}}));
  }
  const Supports::Scale taken = asking.maker.supports().scale;
  if (taken == Supports::Scale::only_default) return;
  constexpr double given = 0.375;
  p->scale = given;
  rows.push_back(by_score(asking, "scale given", *p,
                          {{peak * given, "applied"},
                           {peak * usual, "1/sqrt(d) in its place"},
                           {peak, "not applied"},
                           {peak * given * given, "applied twice"},
                           {peak * std::sqrt(given), "its root, once"}}));
  if (taken != Supports::Scale::any) return;
  p->scale = -given;
  rows.push_back(
      by_score(asking, "negative scale", *p, {{-peak * given, "applied"}, {peak * given, "without its sign"}}));
  p->scale = 0;
  rows.push_back(by_score(asking, "scale of 0", *p,
                          {{0, "applied"}, {peak * usual, "1/sqrt(d) in its place"}, {peak, "not applied"}}));
}

// ---- softcap and bias -----------------------------------------------------------------------------------------------

bool with_bias(const Asking& asking, Problem& p, double value) {
  const Supports& s = asking.maker.supports();
  if (!s.bias) return false;
  p.bias = Bias::zero;
  if (!s.bias_types[0]) p.bias_type = BiasType::f32;
  for (Index j = 0; j < p.lk; j += 2) set(p, Edit::Tensor::bias, {0, 0, 0, j}, value);
  return true;
}

void softcap_and_bias(const Asking& asking, std::vector<ProbeRow>& rows) {
  const Supports& s = asking.maker.supports();
  constexpr double value = 3;
  const double capped = std::tanh(value);
  if (auto p = of_width(asking, 4); p && with_bias(asking, *p, value)) {
    if (s.scale != Supports::Scale::only_default) p->scale = 0.5;
    const double scale = p->effective_scale();
    rows.push_back(by_score(asking, "bias", *p,
                            {{value, "added after the scale"},
                             {value * scale, "scaled too"},
                             {0, "dropped"},
                             {value * std::numbers::ln2, "taken in base 2"},
                             {-value, "subtracted"}}));
  }
  if (!s.softcap) return;
  if (auto p = asking.maker.paired(2, 1)) {
    set_q(*p, 0, 0, 1);
    set_keys(*p, 0, 0, value / p->effective_scale());
    p->softcap = 1;
    rows.push_back(by_score(asking, "softcap formula", *p, {{capped, "c tanh(s/c)"}, {value, "dropped"}}));
  }
  if (auto p = of_width(asking, 4); p && with_bias(asking, *p, value)) {
    p->softcap = 1;
    const bool first = asking.contract.softcap_before_bias;
    const Meaning before{value, "before the bias"}, after{capped, "after the bias"};
    rows.push_back(
        by_score(asking, "softcap and bias", *p, first ? std::vector{before, after} : std::vector{after, before}));
  }
}

// ---- heads ----------------------------------------------------------------------------------------------------------

void heads(const Asking& asking, std::vector<ProbeRow>& rows) {
  const Supports& s = asking.maker.supports();
  constexpr Index queries = 4, keys = 2;
  if (!s.gqa || !s.hq.offers(queries) || !s.hkv.offers(keys)) return;
  Problem p = asking.maker.blank(1, 2, 1, 1);
  p.hq = queries;
  p.hkv = keys;
  for (Index j = 0; j < p.lk; ++j) set(p, Edit::Tensor::v, {0, 1, j, 0}, 1);
  const Shown shown = asking.ask(p);
  std::string observed;
  if (shown.done()) {
    for (Index h = 0; h < queries; ++h) observed += fmt::format("{}{:.3g}", h == 0 ? "" : ",", shown.out(0, 0, h));
    observed = observed == "0,0,1,1" ? "h / group" : observed == "0,1,0,1" ? "h % hkv" : "heads give " + observed;
  }
  const bool agrees = observed == "h / group";
  rows.push_back(
      row_of("key head of query head h", "h / group", observed, shown, agrees ? Standing::agrees : Standing::open));
}

// ---- log-sum-exp ----------------------------------------------------------------------------------------------------

void log_sum_exp(const Asking& asking, std::vector<ProbeRow>& rows) {
  const Supports& s = asking.maker.supports();
  if (!s.lse) return;
  if (auto p = asking.maker.paired(4, 1)) {
    constexpr double score = 3;
    p->lse = LseOutput::f32;
    set_q(*p, 0, 0, 1);
    for (const Index parity : {0, 1}) set_keys(*p, parity, 0, score / p->effective_scale());
    const Shown shown = asking.ask(*p);
    const double sum = std::log(static_cast<double>(p->lk)), log2e = std::numbers::log2e;
    const std::vector<Meaning> meanings{{score + sum, "natural logarithm"},
                                        {(score + sum) * log2e, "base 2"},
                                        {(score + sum) / std::numbers::ln10, "base 10"},
                                        {sum, "without the maximum"},
                                        {score, "the maximum alone"},
                                        {std::exp(score + sum), "no logarithm"},
                                        {static_cast<double>(p->lk), "the sum alone"}};
    std::string observed;
    if (shown.done()) {
      observed = fmt::format("{:.4g} where {:.4g} is meant", shown.lse(), score + sum);
      for (const Meaning& meaning : meanings)
        if (near(shown.lse(), meaning.value)) {
          observed = meaning.words;
          break;
        }
    }
    const bool agrees = observed == meanings.front().words;
    rows.push_back(row_of("lse", "natural logarithm", observed, shown, agrees ? Standing::agrees : Standing::open));
  }
  if (!s.keep) return;
  Problem p = asking.maker.blank(1, 2, 1, 1);
  p.lse = LseOutput::f32;
  p.keep = Keep::closed;
  const Shown shown = asking.ask(p);
  const std::string observed = shown.done() ? fmt::format("{:.4g}", shown.lse()) : "";
  rows.push_back(
      row_of("lse of an empty row", "-inf", observed, shown, observed == "-inf" ? Standing::agrees : Standing::open));
}

// ---- NaN ------------------------------------------------------------------------------------------------------------

void not_numbers(const Asking& asking, std::vector<ProbeRow>& rows) {
  const bool said = asking.contract.nan == NanRule::propagates;
  for (const auto& [tensor, words] :
       {std::pair{Edit::Tensor::q, "NaN in q"}, {Edit::Tensor::k, "NaN in k"}, {Edit::Tensor::v, "NaN in v"}}) {
    Problem p = asking.maker.blank(1, 2, 1, 1);
    p.v_form = Form::drawn;
    set(p, tensor, {0, 0, 0, 0}, std::numeric_limits<double>::quiet_NaN());
    const Shown shown = asking.ask(p);
    const bool comes = shown.done() && std::isnan(shown.out());
    rows.push_back(row_of(words, said ? "comes through" : "not said", comes ? "comes through" : "is gone", shown,
                          !said   ? Standing::unsaid
                          : comes ? Standing::agrees
                                  : Standing::contradicts));
  }
  Problem p = asking.maker.blank(1, 2, 1, 1);
  set(p, Edit::Tensor::v, {0, 0, 0, 0}, infinity);
  const Shown shown = asking.ask(p);
  const std::string observed = !shown.done() ? "" : std::isfinite(shown.out()) ? "a finite number" : "comes through";
  rows.push_back(row_of("infinity in v", said ? "comes through" : "not said", observed, shown,
                        !said                         ? Standing::unsaid
                        : observed == "comes through" ? Standing::agrees
                                                      : Standing::contradicts));
}

}  // namespace

std::vector<ProbeRow> meaning_rows(const Asking& asking) {
  std::vector<ProbeRow> rows;
  scales(asking, rows);
  softcap_and_bias(asking, rows);
  heads(asking, rows);
  log_sum_exp(asking, rows);
  not_numbers(asking, rows);
  return rows;
}

}  // namespace attest::ops::of_attention

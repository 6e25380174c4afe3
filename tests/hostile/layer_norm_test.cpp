// The hostile LayerNorm against the oracle: contracts, problems and liberties at random, until so many elements are
// judged.
//
// ATTEST_HOSTILE_ELEMENTS (1000000) and ATTEST_HOSTILE_SEED (1) say how many and which.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "core/json_text.hpp"
#include "core/layer_norm/contract.hpp"
#include "core/layer_norm/inputs.hpp"
#include "oracle/layer_norm/oracle.hpp"
#include "tests/hostile/layer_norm.hpp"

namespace {

using namespace attest;
using layer_norm::Stage;

double setting(const char* name, double otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atof(text) : otherwise;
}

hostile::Format format_named(attest::Format format) {
  for (const hostile::Format& known : hostile::formats)
    if (known.name == name(format)) return known;
  std::abort();
}

constexpr const char* policies[] = {"f32",
                                    "f64",
                                    "f16",
                                    "bf16",
                                    "f16-all",
                                    "bf16-all",
                                    "f32,statistics=bf16",
                                    "f32,statistics=f64",
                                    "f16,normalise=f16,affine=f16",
                                    "bf16,affine=f16",
                                    "bf16,statistics=f16",
                                    "f32,normalise=bf16",
                                    "f16,sum=f16",
                                    "f32,statistics=f16"};

// A contract as its JSON, each number at one of its edges.
nlohmann::json contract_of(hostile::Dice& dice) {
  nlohmann::json c = nlohmann::json::object();
  constexpr const char* variances[] = {"two_pass", "two_pass_corrected", "welford", "shifted", "one_pass"};
  constexpr const char* forms[] = {"centred", "centred", "scale_bias", "folded", "weighted_scale"};
  const std::string variance = variances[dice(5)], form = forms[dice(5)];
  c["variance"] = variance;
  c["form"] = form;
  if (variance == "welford") {
    if (dice.one_in(2)) {
      const int merges = 1 + static_cast<int>(dice(6));
      c["merge"] = dice.one_in(2) ? "delta" : "weighted";
      c["merge_depth"] = merges;
      c["depth"] = {{"lanes", 1 << merges}, {"block", 1}};
    }
  } else {
    switch (dice(4)) {
      case 0:
        c["depth"] = 11 + dice(60);
        break;
      case 1:
        c["depth"] = {{"lanes", 1 << dice(7)}, {"block", 1}};
        break;
      case 2:
        c["depth"] = {{"pairwise", 1}};
        break;
      default:;
    }
  }
  constexpr double ulps[] = {0.5, 1, 1.5, 2, 7};
  constexpr double relatives[] = {0x1p-12, 1e-3, 0x1p-22};
  if (dice.one_in(4))
    c["rsqrt_rel"] = relatives[dice(3)];
  else
    c["rsqrt_ulp"] = ulps[dice(5)];
  if (form == "centred" || form == "scale_bias") c["norm_rounded"] = dice.one_in(3);
  if (variance == "shifted" || variance == "one_pass") c["clamp"] = dice.one_in(2);
  if (dice.one_in(5)) c["flush_to_zero"] = dice.one_in(2) ? "results" : "inputs";
  if (dice.one_in(4)) c["sum_of"] = "unrounded";
  if (dice.one_in(5)) c["kappa"] = 3;
  if (dice.one_in(5)) c["gamma_offset"] = 1;
  return c;
}

layer_norm::Problem problem_of(hostile::Dice& dice, attest::Format storage) {
  layer_norm::Problem p;
  p.dtype = storage;
  constexpr Index widths[] = {1, 2, 3, 5, 8, 13, 16, 31, 64, 96, 127, 256, 500, 768, 1024, 2048};
  p.hidden = widths[dice(std::size(widths))];
  p.rows = 1 + static_cast<Index>(dice(3));
  p.norm = dice.one_in(5) ? layer_norm::Norm::rms : layer_norm::Norm::layer;
  constexpr double epsilons[] = {0, 1e-12, 1e-6, 1e-5, 1e-3, 1};
  p.epsilon = epsilons[dice(6)];
  p.values = static_cast<layer_norm::Values>(dice(layer_norm::values_count));
  p.residual =
      dice.one_in(3) ? static_cast<layer_norm::Residual>(dice(layer_norm::residual_count)) : layer_norm::Residual::none;
  p.sum_out = p.residual != layer_norm::Residual::none;
  p.gamma = static_cast<layer_norm::Weights>(dice(layer_norm::weights_count));
  p.beta = static_cast<layer_norm::Weights>(dice(layer_norm::weights_count));
  if (storage != attest::Format::f64 && dice.one_in(4)) p.param_type = layer_norm::ParamType::f32;
  constexpr double amplitudes[] = {1, 1, 1, 0.01, 300, 0x1p-18, 0x1p18};
  p.amplitude = amplitudes[dice(7)];
  constexpr double offsets[] = {0, 0, 1, 3, 17, 100, 1e3, -1e4, 1e6};
  p.offset = offsets[dice(9)];
  if (p.values == layer_norm::Values::alternating) p.offset = std::ldexp(1.0, static_cast<int>(dice(16)));
  p.seed = dice(1u << 30);
  return p;
}

hostile::NormPromise promise_of(const layer_norm::Contract& c, const nlohmann::json& words,
                                const layer_norm::Problem& p) {
  hostile::NormPromise n;
  n.storage = format_named(c.policy[Stage::storage]);
  n.sum = format_named(c.policy[Stage::sum]);
  n.statistics = format_named(c.policy[Stage::statistics]);
  n.normalise = format_named(c.policy[Stage::normalise]);
  n.affine = format_named(c.policy[Stage::affine]);
  n.output = format_named(c.policy[Stage::output]);
  n.params = format_named(p.param_format());
  n.variance = words.value("variance", n.variance);
  n.form = words.value("form", n.form);
  n.merge = words.value("merge", n.merge);
  n.merge_depth = words.value("merge_depth", 0);
  n.flush = words.value("flush_to_zero", n.flush);
  n.depth = c.arithmetic.additions(p.hidden);
  n.rsqrt_ulp = words.value("rsqrt_ulp", 1.0);
  n.rsqrt_rel = words.value("rsqrt_rel", 0.0);
  n.norm_rounded = words.value("norm_rounded", false);
  n.clamp = words.value("clamp", false);
  n.unrounded_sum = words.value("sum_of", std::string("rounded")) == "unrounded";
  n.rms = p.norm == layer_norm::Norm::rms;
  n.kappa = words.value("kappa", 1.0);
  n.gamma_offset = words.value("gamma_offset", 0);
  n.epsilon = p.epsilon;
  return n;
}

hostile::NormLiberties liberties_of(hostile::Dice& dice, const hostile::NormPromise& n, const nlohmann::json& words,
                                    Index hidden) {
  hostile::NormLiberties l;
  l.order = static_cast<int>(dice(7));
  const double one_by_one = static_cast<double>(hidden) - 1;
  l.tree = 3;
  if (dice.one_in(2) && n.depth >= one_by_one) l.tree = 0;
  if (dice.one_in(4)) l.tree = 2;
  if (dice.one_in(2) && words.contains("depth") && words["depth"].is_object() && words["depth"].contains("lanes"))
    l.tree = 1, l.lanes = words["depth"]["lanes"];
  l.side = static_cast<int>(dice(3)) - 1;
  if (n.rsqrt_rel == 0 && n.rsqrt_ulp <= 0.5) l.side = 0;
  if (n.kappa >= 3) l.direction = static_cast<int>(dice(5));
  l.reciprocal = dice.one_in(2);
  l.fused = dice.one_in(2);
  l.divide = dice.one_in(2);
  l.late_gamma = dice.one_in(2);
  l.flushes = static_cast<int>(dice(3));
  l.merge_form = static_cast<int>(dice(6));
  l.seed = 1 + dice(1u << 30);
  return l;
}

std::vector<double> row_of(const Tensor& tensor, Index row, Index hidden) {
  std::vector<double> numbers;
  if (tensor.present())
    for (Index i = 0; i < hidden; ++i) numbers.push_back(row < 0 ? tensor.at(i) : tensor.at(row, i));
  return numbers;
}

TEST(HostileLayerNorm, IsNeverBlamed) {
  const double wanted = setting("ATTEST_HOSTILE_ELEMENTS", 1e6);
  hostile::Dice dice(static_cast<std::uint64_t>(setting("ATTEST_HOSTILE_SEED", 1)));
  std::int64_t judged = 0, undetermined = 0;
  int findings = 0;
  std::map<std::string, std::int64_t> by_policy;
  while (static_cast<double>(judged) < wanted && findings < 10) {
    const char* policy = policies[dice(std::size(policies))];
    const nlohmann::json words = contract_of(dice);
    const layer_norm::Contract contract = layer_norm::contract_from_json(words, layer_norm::policy_from_text(policy));
    const layer_norm::Problem problem = problem_of(dice, contract.policy[Stage::storage]);
    const layer_norm::Inputs inputs = materialise(problem);
    const hostile::NormPromise promise = promise_of(contract, words, problem);
    const hostile::NormLiberties liberties = liberties_of(dice, promise, words, problem.hidden);
    Tensor out = make_out(problem), sum_out = make_sum_out(problem);
    for (Index row = 0; row < problem.rows; ++row) {
      const hostile::NormRow got = norm_row(
          promise, liberties, row_of(inputs.x, row, problem.hidden), row_of(inputs.residual, row, problem.hidden),
          row_of(inputs.gamma, -1, problem.hidden), row_of(inputs.beta, -1, problem.hidden));
      for (Index i = 0; i < problem.hidden; ++i) {
        out.set(row, i, 0, 0, got.out[static_cast<std::size_t>(i)]);
        if (sum_out.present()) sum_out.set(row, i, 0, 0, got.sum_out[static_cast<std::size_t>(i)]);
      }
    }
    oracle::layer_norm::LayerNormOracle oracle(contract, problem, inputs);
    Verdict verdict = oracle.judge(out, sum_out);
    for (Index row = 0; row < problem.rows && verdict.kind != VerdictKind::fail; ++row)
      if (auto evidence = oracle.no_shared_mean(row, out))
        verdict = Verdict::fail(std::move(*evidence), verdict.counts);
    judged += verdict.counts.judged;
    undetermined += verdict.counts.undetermined;
    by_policy[policy] += verdict.counts.judged;
    if (verdict.kind != VerdictKind::fail) continue;
    ++findings;
    const Evidence& e = *verdict.evidence;
    ADD_FAILURE() << to_text(problem) << "\n  " << policy << " " << words.dump() << "\n  order " << liberties.order
                  << " tree " << liberties.tree << " lanes " << liberties.lanes << " side " << liberties.side
                  << " direction " << liberties.direction << " reciprocal " << liberties.reciprocal << " fused "
                  << liberties.fused << " divide " << liberties.divide << " late " << liberties.late_gamma
                  << " flushes " << liberties.flushes << " merge " << liberties.merge_form << "\n  " << e.tensor << "["
                  << e.index[0] << "," << e.index[1] << "] got " << e.got << " expected " << e.expected << " ratio "
                  << e.ratio;
  }
  for (const auto& [name, count] : by_policy)
    std::printf("%-34s judged %10ld\n", name.c_str(), static_cast<long>(count));
  std::printf("judged %ld undetermined %ld findings %d\n", static_cast<long>(judged), static_cast<long>(undetermined),
              findings);
}

// The same kernel past what it promised: the oracle sees it, so that silence above says something.
TEST(HostileLayerNorm, PastItsPromiseItIsBlamed) {
  const struct {
    const char* what;
    const char* problem;
    void (*exceed)(hostile::NormPromise&, hostile::NormLiberties&);
  } steps[] = {
      {"root", "rows=2 hidden=16 offset=0", [](auto& n, auto& l) { n.rsqrt_ulp = 60, l.side = 1; }},
      {"variance", "rows=2 hidden=256 offset=100", [](auto& n, auto&) { n.variance = "one_pass"; }},
      {"norm_rounded", "rows=2 hidden=64 gamma=none beta=none",
       [](auto& n, auto&) { n.norm_rounded = true, n.storage = hostile::formats[1]; }},
      {"flushing", "rows=2 hidden=64 gamma=tiny beta=none",
       [](auto& n, auto& l) { n.flush = "results", l.flushes = 1; }},
      {"statistics", "rows=2 hidden=64", [](auto& n, auto&) { n.statistics = hostile::formats[0]; }},
      {"gamma_offset", "rows=2 hidden=64", [](auto& n, auto&) { n.gamma_offset = 1; }},
  };
  const layer_norm::Contract contract = layer_norm::contract_for(layer_norm::policy_from_text("f32"));
  for (const auto& step : steps) {
    int found = 0, blamed = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed)
      for (const bool past : {false, true}) {
        layer_norm::Problem problem = layer_norm::problem_from_text(step.problem);
        problem.seed = seed;
        const layer_norm::Inputs inputs = materialise(problem);
        hostile::NormPromise promise = promise_of(contract, nlohmann::json::object(), problem);
        hostile::NormLiberties liberties;
        if (past) step.exceed(promise, liberties);
        Tensor out = make_out(problem);
        for (Index row = 0; row < problem.rows; ++row) {
          const auto got = norm_row(promise, liberties, row_of(inputs.x, row, problem.hidden), {},
                                    row_of(inputs.gamma, -1, problem.hidden), row_of(inputs.beta, -1, problem.hidden));
          for (Index i = 0; i < problem.hidden; ++i) out.set(row, i, 0, 0, got.out[static_cast<std::size_t>(i)]);
        }
        const bool fails =
            oracle::layer_norm::LayerNormOracle(contract, problem, inputs).judge(out, {}).kind == VerdictKind::fail;
        (past ? found : blamed) += fails;
      }
    std::printf("past %-14s found %d of 20\n", step.what, found);
    EXPECT_EQ(blamed, 0) << step.what;
    EXPECT_GE(found, 18) << step.what;
  }
}

}  // namespace

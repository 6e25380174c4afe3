// The rules of others beside attest's own verdict, on the same outputs: of faults, of the kernels they depart from, and of
// others that conform.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/inputs.hpp"
#include "core/rng.hpp"
#include "engine/check.hpp"
#include "engine/grade/emulated.hpp"
#include "engine/grade/parts.hpp"
#include "engine/grade/rules.hpp"
#include "engine/stream.hpp"
#include "engine/threads.hpp"
#include "generators/draw.hpp"
#include "ops/attention.hpp"
#include "properties/property.hpp"
#include "properties/trial.hpp"

#include <omp.h>

namespace attest::engine {
namespace {

constexpr std::uint64_t paired_seed = 0x7061697265640001;  // apart from the seeds of campaigns
constexpr std::uint64_t emulated_stream = 0x656D756C;      // keeps the emulated kernels apart from the problems
constexpr std::uint64_t blocks_stream = 0x626C6F63;        // and those with the sums of tensor cores
constexpr std::uint64_t blocks_draws = 2;  // of the latter, for each of the others: few built-in kernels have such sums
constexpr Index most_multiply_adds = Index{1} << 20, most_numbers = Index{1} << 22;

// Elements in logical order.
std::vector<double> elements(const Tensor& tensor) {
  std::vector<double> values;
  if (!tensor.present()) return values;
  std::array<Index, 4> n{1, 1, 1, 1};
  std::ranges::copy(tensor.shape(), n.begin());
  values.reserve(static_cast<std::size_t>(tensor.size()));
  for (Index a = 0; a < n[0]; ++a)
    for (Index b = 0; b < n[1]; ++b)
      for (Index c = 0; c < n[2]; ++c)
        for (Index d = 0; d < n[3]; ++d) values.push_back(tensor.at(a, b, c, d));
  return values;
}

bool same_number(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

Tensor in_f64(const Tensor& tensor) {
  Tensor wide(DType::f64, tensor.shape());
  const auto n = wide.shape();
  for (Index a = 0; a < n[0]; ++a)
    for (Index b = 0; b < n[1]; ++b)
      for (Index c = 0; c < n[2]; ++c)
        for (Index d = 0; d < n[3]; ++d) wide.set(a, b, c, d, tensor.at(a, b, c, d));
  return wide;
}

// The policy of explicit attention as a framework runs it on tensors of `type`: each operation accumulates in f32 and rounds
// its result to the type, scores and weights among them.
attest::Policy framework_policy(Format type) {
  attest::Policy policy = policy_for(type);
  if (type == Format::f16 || type == Format::bf16)
    for (const Stage stage : {Stage::scale, Stage::score, Stage::softcap}) policy.set(stage, type);
  return policy;
}

// What users of the rules compare with, for one thread.
class References {
 public:
  explicit References(const GradeOptions& options) : options_(options) {}

  std::vector<double> exact(const Inputs& inputs, const attest::Problem& problem) {
    Inputs wide = inputs.clone();
    wide.q = in_f64(inputs.q);
    wide.k = in_f64(inputs.k);
    wide.v = in_f64(inputs.v);
    Tensor out(DType::f64, std::array<Index, 4>{problem.b, problem.hq, problem.lq, problem.dv});
    return run(policy_for(Format::f64), wide, std::move(out));
  }
  std::vector<double> low(const Inputs& inputs, const attest::Problem& problem) {
    return run(framework_policy(problem.dtype), inputs, make_out(problem));
  }

 private:
  std::vector<double> run(const attest::Policy& policy, const Inputs& inputs, Tensor out) {
    std::unique_ptr<Subject>& subject = subjects_[to_text(policy)];
    if (!subject) {
      factories_.push_back(options_.open(options_.reference, policy));
      subject = factories_.back()->open();
    }
    const attest_attention call = inputs.call(out, Tensor());
    const CallResult result = subject->run_one(call);
    if (result.status != CallStatus::done)
      throw internal_error("grade: the reference kernel failed: " + result.message);
    return elements(out);
  }

  const GradeOptions& options_;
  std::vector<std::unique_ptr<SubjectFactory>> factories_;
  std::map<std::string, std::unique_ptr<Subject>> subjects_;  // by policy
};

// A kernel of the table: conforming ones first, then the faults.
struct Kernel {
  std::string name;
  std::unique_ptr<SubjectFactory> factory;
  std::size_t parent = 0;  // of a fault
};

// What a kernel's output is to each column.
struct Shot {
  std::vector<double> multiples;  // of an own column: 0 holds, infinite objects
  bool acts = false;              // of a fault: its result differs from that of its parent
  bool widens = false;            // of a conforming kernel: the rules of others are set by it
  // Of a conforming kernel that does not: the parents that promise as much, for whose faults it does all the same.
  std::vector<std::size_t> widens_for{};
  std::optional<Tensor> out{};  // of a fault that acts and is not objected to, if it is small and has no lse
};

// All kernels on one problem.
struct Shots {
  std::vector<Shot> kernels;  // in their order
  struct Emulated : Shot {
    std::uint64_t number = 0;
  };
  std::vector<Emulated> emulated;
};

// The laws that look at nothing but the call itself and run on every problem of a campaign.
bool attest_objects(properties::Trial& trial, std::span<const std::size_t> laws) {
  const auto all = properties::properties();
  return std::ranges::any_of(laws, [&](std::size_t law) {
    return !all[law].not_applicable(trial.problem(), trial.contract(), trial.subject().info()) &&
           is_finding(all[law].check(trial).kind);
  });
}

// Whether every block is made of as many products as `least` says, and keeps as many bits.
bool keeps(const std::optional<Mma>& sums, const std::optional<Mma>& least) {
  return !sums || (least && sums->block >= least->block && sums->frac >= least->frac && sums->out == least->out);
}

// Whether the errors of `contract` are none but such as one of the other two permits.
bool no_wider(const attest::Contract& contract, const attest::Contract& least, const attest::Contract& other) {
  const Arithmetic &a = contract.arithmetic, &b = least.arithmetic, &c = other.arithmetic;
  const auto tanh_of = [&](const Arithmetic& x) { return x.tanh == a.tanh ? x.tanh_ulp : 0; };
  return a.kappa <= std::max(b.kappa, c.kappa) && (keeps(a.mma, b.mma) || keeps(a.mma, c.mma)) &&
         (!a.flush_to_zero || b.flush_to_zero || c.flush_to_zero) &&
         a.exp_rel.value_or(0) <= std::max(b.exp_rel.value_or(0), c.exp_rel.value_or(0)) &&
         (a.exp_rel || a.exp_ulp <= std::max(b.exp_ulp, c.exp_ulp)) && a.div_ulp <= std::max(b.div_ulp, c.div_ulp) &&
         a.tanh_ulp <= std::max(tanh_of(b), tanh_of(c)) &&
         contract.lazy_nats() <= std::max(least.lazy_nats(), other.lazy_nats());
}

// Rounding to nearest, no flush to zero, functions as exact as a contract has them that does not say: what a rule must accept
// though it is told nothing.
bool ordinary(const attest::Contract& contract) {
  const attest::Contract silent = contract_for(contract.policy);
  return no_wider(contract, silent, silent);
}

// Where no kernel could set the rule, it takes anything.
double least_multiple(const std::map<Format, double>& multiples, Format type) {
  const auto found = multiples.find(type);
  return found == multiples.end() ? any_multiple : found->second;
}

class PairedRun {
 public:
  PairedRun(const GradeOptions& options, bool plain)
      : options_(options), plain_(plain), conforming_(options.conforming.size()) {
    for (const std::string& name : options.conforming) kernels_.push_back({name, options.open(name, options.policy)});
    for (const GradedFault& fault : options.faults) {
      const auto parent = std::ranges::find(options.conforming, fault.parent);
      if (parent == options.conforming.end())
        throw internal_error("grade: " + fault.name + " departs from " + fault.parent +
                             ", which is not among the kernels");
      kernels_.push_back({fault.name, options.open(fault.name, options.policy),
                          static_cast<std::size_t>(parent - options.conforming.begin())});
    }
    for (int i = 0; i < options.jobs; ++i) threads_.emplace_back(options);
    shots_.resize(options.paired);
    problems_.resize(options.paired);
  }

  RuleTable run() {
    const attest::Domain domain = paired_domain(kernels_.front().factory->info(), options_.policy);
    const auto shoot_all = [&](std::uint64_t i) {
      problems_[i] = paired_problem(domain, i, plain_);
      shots_[i] = shoot(i, threads_[static_cast<std::size_t>(omp_get_thread_num())]);
    };
    on_all_threads(options_.paired, options_.jobs, shoot_all, options_.interrupt);
    shots_.erase(std::ranges::find_if(shots_, [](const Shots& shots) { return shots.kernels.empty(); }), shots_.end());
    RuleTable table;
    table.set = plain_ ? "plain" : "domain";
    table.doc = plain_ ? "values from N(0,1), the default scale, no softcap, masks of -inf"
                       : "as campaigns draw them, up to 2^20 multiply-adds";
    table.problems = shots_.size();
    table.columns.push_back(
        {.name = "attest",
         .doc = "what looks at that call alone: guards, result class, policy bound, lone-key, statistical tiers",
         .own = true});
    for (const ToleranceRule& rule : tolerance_rules())
      table.columns.push_back({.name = std::string(rule.name), .doc = std::string(rule.doc)});
    set_on_conforming(table);
    for (std::size_t k = conforming_; k < kernels_.size(); ++k) table.faults.push_back(measure(k, table));
    for (auto& [parent, wider] : wider_) table.wider.push_back(std::move(wider));
    return table;
  }

 private:
  struct Thread {
    explicit Thread(const GradeOptions& options) : references(options) {}
    References references;
    std::vector<std::unique_ptr<Subject>> subjects;
  };

  // What the rules see of one problem, whoever computed `got`.
  struct View {
    std::vector<double> exact, expected, low;
  };

  Shots shoot(std::uint64_t number, Thread& thread) {
    if (thread.subjects.empty())
      for (const Kernel& kernel : kernels_) thread.subjects.push_back(kernel.factory->open());
    const attest::Problem& problem = problems_[number];
    const Inputs inputs = materialise(problem);
    const View view = view_of(problem, inputs, thread);
    Shots shots;
    shots.kernels.resize(kernels_.size());
    const std::map<std::size_t, attest::Contract> unusual = unusual_parents(problem);
    std::vector<std::vector<double>> results(conforming_);  // out and lse
    for (std::size_t k = 0; k < kernels_.size(); ++k) {
      const attest::Contract contract = contract_of(k, problem);
      properties::Trial trial(problem, contract, *thread.subjects[k]);
      Shot& shot = shots.kernels[k] = judge(trial, view);
      std::vector<double> all = elements(trial.base().out);
      for (const double x : elements(trial.base().lse)) all.push_back(x);
      if (k < conforming_) {
        results[k] = std::move(all);
        set_widens_for(shot, contract, unusual);
      } else {
        shot.acts = !std::ranges::equal(all, results[kernels_[k].parent], same_number);
        if (shot.acts && !(shot.multiples[0] > 1) && all.size() == 1) shot.out = trial.base().out.clone();
      }
    }
    const attest::Policy policy = contract_of(0, problem).policy;
    const std::uint64_t key = extend(extend(extend(mix(paired_seed), emulated_stream), plain_), number);
    const auto shoot_emulated = [&](const auto& draw, std::uint64_t draws, std::uint64_t from) {
      for (const EmulatedResult& result : emulated_results(draw, draws, policy, problem, inputs, from)) {
        const auto subject = answering(result, kernels_.front().factory->info());
        properties::Trial trial(problem, result.contract, *subject);
        shots.emulated.push_back({judge(trial, view), result.number});
        set_widens_for(shots.emulated.back(), result.contract, unusual);
      }
    };
    shoot_emulated(options_.draw_emulated, options_.emulated, key);
    if (options_.draw_emulated_with)
      for (const auto& [parent, contract] : unusual)
        if (contract.arithmetic.mma)
          shoot_emulated(drawn_for(contract), blocks_draws * options_.emulated,
                         extend(extend(key, blocks_stream), parent));
    return shots;
  }

  static View view_of(const attest::Problem& problem, const Inputs& inputs, Thread& thread) {
    View view{thread.references.exact(inputs, problem), {}, thread.references.low(inputs, problem)};
    view.expected = view.exact;
    for (double& x : view.expected) x = round_to(problem.dtype, x);
    return view;
  }

  [[nodiscard]] attest::Contract contract_of(std::size_t k, const attest::Problem& problem) const {
    return contract_for_problem(kernels_[k].factory->info(), options_.policy, problem).as<attest::Contract>();
  }

  // Of the faults' parents those that promise more than the rules of others are told.
  [[nodiscard]] std::map<std::size_t, attest::Contract> unusual_parents(const attest::Problem& problem) const {
    std::map<std::size_t, attest::Contract> unusual;
    for (std::size_t k = conforming_; k < kernels_.size(); ++k) {
      attest::Contract contract = contract_of(kernels_[k].parent, problem);
      if (!ordinary(contract)) unusual.emplace(kernels_[k].parent, std::move(contract));
    }
    return unusual;
  }

  static void set_widens_for(Shot& shot, const attest::Contract& contract,
                             const std::map<std::size_t, attest::Contract>& unusual) {
    if (shot.widens) return;
    for (const auto& [parent, promise] : unusual)
      if (no_wider(contract, contract_for(contract.policy), promise)) shot.widens_for.push_back(parent);
  }

  static Shot judge(properties::Trial& trial, const View& view) {
    trial.announce_statistics();
    const std::vector<double> got = elements(trial.base().out);
    const auto laws = choose_laws({.further = 0, .property_glob = {}}, trial.problem(), trial.contract(),
                                  trial.subject().info(), 0, 0);
    Shot shot;
    shot.widens = ordinary(trial.contract());
    shot.multiples.push_back(attest_objects(trial, laws) ? any_multiple : 0);
    const Sight sight{trial.problem().dtype, got, view.exact, view.expected, view.low};
    for (const ToleranceRule& rule : tolerance_rules()) shot.multiples.push_back(rule.least_multiple(sight));
    return shot;
  }

  // False alarms, and the multiples that leave none.
  void set_on_conforming(RuleTable& table) {
    for (std::size_t i = 0; i < shots_.size(); ++i) {
      for (std::size_t k = 0; k < conforming_; ++k) set_on(shots_[i].kernels[k], i, kernels_[k].name, table);
      for (const Shots::Emulated& shot : shots_[i].emulated)
        set_on(shot, i, "emulated kernel " + std::to_string(shot.number), table);
      table.emulated_cases += shots_[i].emulated.size();
    }
    finish_wider(table);
  }

  void set_on(const Shot& shot, std::uint64_t number, const std::string& kernel, RuleTable& table) {
    ++table.conforming_cases;
    table.widening_cases += shot.widens;
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      RuleColumn& column = table.columns[c];
      const bool objects = !(shot.multiples[c] <= 1);
      if (column.own || shot.widens) column.false_alarms += objects;
      if (column.own && objects) table.alarms.push_back(kernel + ": " + to_text(problems_[number]));
      if (column.own) continue;
      const Format type = problems_[number].dtype;
      if (shot.widens) widen(column.multiple[type], shot.multiples[c]);
      for (const std::size_t parent : shot.widens_for) {
        WiderSetting& wider = wider_[parent];
        wider.multiples.resize(table.columns.size());
        widen(wider.multiples[c][type], shot.multiples[c]);
      }
    }
    for (const std::size_t parent : shot.widens_for) ++wider_[parent].cases;
  }
  static void widen(double& least, double multiple) { least = std::max(least, multiple); }

  // What no case objects to that sets the rules anywhere is nothing to the faults of a parent that promises more either.
  void finish_wider(const RuleTable& table) {
    for (auto& [parent, wider] : wider_) {
      wider.parent = kernels_[parent].name;
      for (std::size_t c = 0; c < table.columns.size(); ++c)
        for (const auto& [type, least] : table.columns[c].multiple) widen(wider.multiples[c][type], least);
    }
  }

  [[nodiscard]] double multiple_for(std::size_t k, std::size_t column, Format type, const RuleTable& table) const {
    const auto wider = wider_.find(kernels_[k].parent);
    return least_multiple(wider == wider_.end() ? table.columns[column].multiple : wider->second.multiples[column],
                          type);
  }

  [[nodiscard]] FaultRules measure(std::size_t k, const RuleTable& table) const {
    FaultRules row;
    row.fault = kernels_[k].name;
    row.columns.resize(table.columns.size());
    for (std::size_t i = 0; i < shots_.size(); ++i) {
      const Shot& shot = shots_[i].kernels[k];
      if (!shot.acts) continue;
      ++row.acts;
      BeyondCase beyond{i + 1, to_text(problems_[i]), {}};
      std::vector<std::size_t> columns;  // of the rules in `beyond`
      bool ours = false;
      for (std::size_t c = 0; c < table.columns.size(); ++c) {
        const RuleColumn& column = table.columns[c];
        RulePower& power = row.columns[c];
        const double multiple = shot.multiples[c];
        const bool detected = !(multiple <= 1);
        const bool at_zero = column.own ? detected : !(multiple <= multiple_for(k, c, problems_[i].dtype, table));
        ours = ours || (column.own && detected);
        power.detected += detected;
        power.detected_at_zero += at_zero;
        if (at_zero && !ours) {
          columns.push_back(c);
          beyond.rules.push_back({column.name, multiple});
        }
        if (detected && !power.first) power.first = i + 1;
        if (at_zero && !power.first_at_zero) power.first_at_zero = i + 1;
      }
      if (columns.empty()) continue;
      if (owed(k, i)) {
        row.owed.push_back(std::move(beyond));
        continue;
      }
      for (const std::size_t c : columns) ++row.columns[c].beyond;
      row.beyond.push_back(std::move(beyond));
    }
    return row;
  }

  // Whether a kernel that keeps the promise of the fault's parent was found to return the very bits.
  [[nodiscard]] bool owed(std::size_t k, std::size_t i) const {
    const std::optional<Tensor>& out = shots_[i].kernels[k].out;
    if (!out || !options_.conforming_returns) return false;
    const attest::Problem& problem = problems_[i];
    return options_.conforming_returns(contract_of(kernels_[k].parent, problem), problem, materialise(problem), *out);
  }

  // Emulated kernels with the sums of a promise.
  [[nodiscard]] std::function<EmulatedKernel(const attest::Policy&, std::uint64_t)> drawn_for(
      const attest::Contract& promise) const {
    if (const std::optional<Mma>& mma = promise.arithmetic.mma; mma && options_.draw_emulated_with)
      return [this, mma](const attest::Policy& p, std::uint64_t n) { return options_.draw_emulated_with(*mma, p, n); };
    return options_.draw_emulated;
  }

  const GradeOptions& options_;
  const bool plain_;
  const std::size_t conforming_;
  std::vector<Kernel> kernels_;
  std::vector<Thread> threads_;
  std::vector<Shots> shots_;  // by problem
  std::vector<attest::Problem> problems_;
  std::map<std::size_t, WiderSetting> wider_;  // by parent
};

}  // namespace

attest::Domain paired_domain(const SubjectInfo& info, const std::optional<attest::Policy>& policy) {
  attest::Domain domain = ops::attention_domain(*domain_for(info, ops::attention_op(), policy, std::nullopt));
  domain.assume([](const attest::Problem& p) {
    const Index numbers = p.b * (p.hq * p.lq + p.hkv * p.lk) * (p.d + p.dv);  // of q, k, v and out
    return p.multiply_adds() <= most_multiply_adds && numbers <= most_numbers;
  });
  return domain;
}

attest::Problem paired_problem(const attest::Domain& domain, std::uint64_t number, bool plain) {
  attest::Problem problem = draw_problem(domain, paired_seed, number, 1);
  if (!plain) return problem;
  problem.values = Values::normal;
  problem.amplitude = 1;
  problem.q_form = problem.k_form = problem.v_form = Form::drawn;
  problem.scale.reset();
  problem.softcap = 0;
  if (problem.bias == Bias::lowest || problem.bias == Bias::minus_1e4 || problem.bias == Bias::large)
    problem.bias = Bias::minus_inf;
  if (problem.bias == Bias::empty_lowest) problem.bias = Bias::empty_inf;
  return problem;
}

RuleTable rule_table(const GradeOptions& options, bool plain) { return PairedRun(options, plain).run(); }

}  // namespace attest::engine

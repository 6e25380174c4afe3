// The rules of others beside attest's own verdict, on the same outputs: of faults, of the kernels they depart from, and
// of others that conform.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/rng.hpp"
#include "engine/check.hpp"
#include "engine/grade/emulated.hpp"
#include "engine/grade/parts.hpp"
#include "engine/grade/rules.hpp"
#include "engine/grade/watched.hpp"
#include "engine/stream.hpp"
#include "engine/threads.hpp"

#include <omp.h>

namespace attest::engine {
namespace {

using ops::Grading;
using ops::is_ordinary;

constexpr std::uint64_t paired_seed = 0x7061697265640001;  // apart from the seeds of campaigns
constexpr std::uint64_t emulated_stream = 0x656D756C;      // keeps the emulated kernels apart from the problems
constexpr std::uint64_t rare_stream = 0x626C6F63;          // and those with rare sums
constexpr std::uint64_t rare_draws = 2;  // kernels for each of the others: few built-in kernels have such sums

bool same_number(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

// The references that users of the rules compare with, for one thread.
class References {
 public:
  explicit References(const GradeOptions& options) : options_(options) {}

  // The first output in f64, of inputs that are taken as they are.
  std::vector<double> exact(const Problem& problem, const Contract& contract, const SubjectInfo& info) {
    InF64 wide(opened(options_.op->policy_from_text("f64")), info);
    problem.op().trial(problem, contract, wide, nullptr)->base();
    return wide.out();
  }
  // The same as a framework computes it in the problem's type.
  std::vector<double> low(const Problem& problem, const Contract& contract) {
    Watched watched(opened(problem.op().grading()->framework_policy(problem.op().dtype(problem))));
    problem.op().trial(problem, contract, watched, nullptr)->base();
    return watched.outputs().front();
  }

 private:
  Subject& opened(const Policy& policy) {
    std::unique_ptr<Subject>& subject = subjects_[to_text(policy)];
    if (!subject) {
      factories_.push_back(options_.open(options_.reference, policy));
      subject = factories_.back()->open();
    }
    return *subject;
  }

  const GradeOptions& options_;
  std::vector<std::unique_ptr<SubjectFactory>> factories_;
  std::map<std::string, std::unique_ptr<Subject>> subjects_;  // by policy
};

// A kernel of the table: conforming ones first, then the faults.
struct Kernel {
  std::string name;
  std::unique_ptr<SubjectFactory> factory;
  std::size_t parent = 0;  // a fault's parent
};

// A kernel's output as the columns judge it.
struct Shot {
  std::vector<double> multiples;  // in an own column: 0 holds, infinite objects
  bool acts = false;              // for a fault: its result differs from that of its parent
  bool widens = false;            // for a conforming kernel: the rules of others are set by it
  // For a conforming kernel that does not: the parents that promise as much, for whose faults it does all the same.
  std::vector<std::size_t> widens_for{};
  std::optional<double> out{};  // for a fault that acts and is not objected to, if that is all it gave
};

// All kernels on one problem.
struct Shots {
  std::vector<Shot> kernels;  // in their order
  struct Emulated : Shot {
    std::uint64_t number = 0;
  };
  std::vector<Emulated> emulated;
};

// The least multiple of a rule. A rule that no kernel could set accepts anything.
double least_multiple(const std::map<Format, double>& multiples, Format type) {
  const auto found = multiples.find(type);
  return found == multiples.end() ? any_multiple : found->second;
}

class PairedRun {
 public:
  PairedRun(const GradeOptions& options, bool plain)
      : options_(options), grading_(*options.op->grading()), plain_(plain), conforming_(options.conforming.size()) {
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
    const std::unique_ptr<Domain> domain =
        paired_domain(kernels_.front().factory->info(), *options_.op, options_.policy);
    const auto shoot_all = [&](std::uint64_t i) {
      problems_[i] = paired_problem(*domain, i, plain_);
      shots_[i] = shoot(i, threads_[static_cast<std::size_t>(omp_get_thread_num())]);
    };
    on_all_threads(options_.paired, options_.jobs, shoot_all, options_.interrupt);
    shots_.erase(std::ranges::find_if(shots_, [](const Shots& shots) { return shots.kernels.empty(); }), shots_.end());
    RuleTable table;
    table.set = plain_ ? "plain" : "domain";
    const Grading::Words& words = grading_.words();
    table.doc = plain_ ? std::string(words.plain) : "as campaigns draw them, " + std::string(words.paired);
    table.emulated_on = words.emulated;
    table.problems = shots_.size();
    table.columns.push_back({.name = "attest", .doc = std::string(words.own), .own = true});
    for (const ToleranceRule& rule : tolerance_rules())
      table.columns.push_back({.name = std::string(rule.name), .doc = doc_of(rule, words.reference)});
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

  // The results that the rules compare with on one problem, whoever computed `got`.
  struct View {
    std::vector<double> exact, expected, low;
  };

  Shots shoot(std::uint64_t number, Thread& thread) {
    if (thread.subjects.empty())
      for (const Kernel& kernel : kernels_) thread.subjects.push_back(kernel.factory->open());
    const Problem& problem = problems_[number];
    const View view = view_of(problem, thread);
    Shots shots;
    shots.kernels.resize(kernels_.size());
    const std::map<std::size_t, Contract> unusual = unusual_parents(problem);
    std::vector<std::vector<double>> results(conforming_);  // all outputs
    for (std::size_t k = 0; k < kernels_.size(); ++k) {
      const Contract contract = contract_of(k, problem);
      Watched watched(*thread.subjects[k]);
      Shot& shot = shots.kernels[k] = judge(problem, contract, watched, view);
      std::vector<double> all;
      for (const std::vector<double>& output : watched.outputs()) all.insert(all.end(), output.begin(), output.end());
      if (k < conforming_) {
        results[k] = std::move(all);
        set_widens_for(shot, contract, unusual);
      } else {
        shot.acts = !std::ranges::equal(all, results[kernels_[k].parent], same_number);
        if (shot.acts && !(shot.multiples[0] > 1) && all.size() == 1) shot.out = all.front();
      }
    }
    const Policy policy = ops::policy_of(contract_of(0, problem));
    const std::uint64_t key = extend(extend(extend(mix(paired_seed), emulated_stream), plain_), number);
    const auto shoot_emulated = [&](const DrawEmulated& draw, std::uint64_t draws, std::uint64_t from) {
      for (const EmulatedResult& result : emulated_results(draw, draws, policy, problem, from)) {
        const auto subject = answering(result.kernel, kernels_.front().factory->info());
        Watched watched(*subject);
        shots.emulated.push_back({judge(problem, result.kernel.contract, watched, view), result.number});
        set_widens_for(shots.emulated.back(), result.kernel.contract, unusual);
      }
    };
    shoot_emulated(options_.draw_emulated, options_.emulated, key);
    if (options_.draw_emulated_for)
      for (const auto& [parent, contract] : unusual)
        if (grading_.has_rare_sums(contract))
          shoot_emulated(
              [&, &of = contract](const Policy& p, std::uint64_t n) { return options_.draw_emulated_for(of, p, n); },
              rare_draws * options_.emulated, extend(extend(key, rare_stream), parent));
    return shots;
  }

  View view_of(const Problem& problem, Thread& thread) const {
    const Contract contract = contract_of(0, problem);
    View view{thread.references.exact(problem, contract, kernels_.front().factory->info()),
              {},
              thread.references.low(problem, contract)};
    view.expected = view.exact;
    for (double& x : view.expected) x = round_to(problem.op().dtype(problem), x);
    return view;
  }

  [[nodiscard]] Contract contract_of(std::size_t k, const Problem& problem) const {
    return contract_for_problem(kernels_[k].factory->info(), options_.policy, problem);
  }

  // The faults' parents that promise more than the rules of others are told.
  [[nodiscard]] std::map<std::size_t, Contract> unusual_parents(const Problem& problem) const {
    std::map<std::size_t, Contract> unusual;
    for (std::size_t k = conforming_; k < kernels_.size(); ++k) {
      Contract contract = contract_of(kernels_[k].parent, problem);
      if (!is_ordinary(grading_, contract)) unusual.emplace(kernels_[k].parent, std::move(contract));
    }
    return unusual;
  }

  void set_widens_for(Shot& shot, const Contract& contract, const std::map<std::size_t, Contract>& unusual) const {
    if (shot.widens) return;
    for (const auto& [parent, promise] : unusual)
      if (grading_.no_wider(contract, grading_.silent(ops::policy_of(contract)), promise))
        shot.widens_for.push_back(parent);
  }

  // Judges by the laws that look at nothing but the call itself and run on every problem of a campaign, and by every
  // rule.
  [[nodiscard]] Shot judge(const Problem& problem, const Contract& contract, Watched& subject, const View& view) const {
    const std::unique_ptr<ops::Trial> trial = problem.op().trial(problem, contract, subject, nullptr);
    trial->base();
    const std::vector<double> got = subject.outputs().front();
    const auto all = all_laws();
    const auto laws = choose_laws({.further = 0, .property_glob = {}}, problem, contract, subject.info(), 0, 0);
    const bool objects = std::ranges::any_of(laws, [&](std::size_t law) {
      return !all[law].not_applicable(problem, contract, subject.info()) && is_finding(trial->check(all[law]).kind);
    });
    Shot shot;
    shot.widens = is_ordinary(grading_, contract);
    shot.multiples.push_back(objects ? any_multiple : 0);
    const Sight sight{problem.op().dtype(problem), got, view.exact, view.expected, view.low};
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
      const Format type = dtype_of(number);
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

  // Sets the rules for the faults of a parent that promises more at least as wide as they are for the others.
  void finish_wider(const RuleTable& table) {
    for (auto& [parent, wider] : wider_) {
      wider.parent = kernels_[parent].name;
      for (std::size_t c = 0; c < table.columns.size(); ++c)
        for (const auto& [type, least] : table.columns[c].multiple) widen(wider.multiples[c][type], least);
    }
  }

  [[nodiscard]] Format dtype_of(std::size_t problem) const { return options_.op->dtype(problems_[problem]); }

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
      std::vector<std::size_t> columns;  // columns of the rules in `beyond`
      bool ours = false;
      for (std::size_t c = 0; c < table.columns.size(); ++c) {
        const RuleColumn& column = table.columns[c];
        RulePower& power = row.columns[c];
        const double multiple = shot.multiples[c];
        const bool detected = !(multiple <= 1);
        const bool at_zero = column.own ? detected : !(multiple <= multiple_for(k, c, dtype_of(i), table));
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

  // Tells whether a kernel that keeps the promise of the fault's parent was found to return the very bits.
  [[nodiscard]] bool owed(std::size_t k, std::size_t i) const {
    const std::optional<double>& out = shots_[i].kernels[k].out;
    return out && options_.conforming_returns &&
           options_.conforming_returns(contract_of(kernels_[k].parent, problems_[i]), problems_[i], *out);
  }

  const GradeOptions& options_;
  const Grading& grading_;
  const bool plain_;
  const std::size_t conforming_;
  std::vector<Kernel> kernels_;
  std::vector<Thread> threads_;
  std::vector<Shots> shots_;  // by problem
  std::vector<Problem> problems_;
  std::map<std::size_t, WiderSetting> wider_;  // by parent
};

}  // namespace

std::unique_ptr<Domain> paired_domain(const SubjectInfo& info, const Op& op, const std::optional<Policy>& policy) {
  std::unique_ptr<Domain> domain = domain_for(info, op, policy, std::nullopt);
  domain->assume([&grading = *op.grading()](const Problem& problem) { return grading.is_paired(problem); });
  return domain;
}

Problem paired_problem(const Domain& domain, std::uint64_t number, bool plain) {
  Problem problem = domain.draw(paired_seed, number, 1).problem;
  return plain ? problem.op().grading()->plain(std::move(problem)) : problem;
}

RuleTable rule_table(const GradeOptions& options, bool plain) { return PairedRun(options, plain).run(); }

}  // namespace attest::engine

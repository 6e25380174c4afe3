// Tells whether equal calls give equal bits: again, on fresh instances, with other numbers of threads, and in batches;
// and how fast.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "engine/probe/probe.hpp"

namespace attest::engine {
namespace {

using ops::Answered;

constexpr double most_seconds = 0.3;  // longest call that is asked several times

bool is_done(const Answered& answered) { return answered.call.status == CallStatus::done; }
double seconds_of(const Answered& answered) { return static_cast<double>(answered.call.elapsed_ns) * 1e-9; }

// The first element whose bits differ; NaN is NaN.
std::optional<std::size_t> first_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::min(a.size(), b.size());
  for (std::size_t n = 0; n < a.size(); ++n)
    if (std::bit_cast<std::uint64_t>(a[n]) != std::bit_cast<std::uint64_t>(b[n]) &&
        !(std::isnan(a[n]) && std::isnan(b[n])))
      return n;
  return std::nullopt;
}
std::optional<std::size_t> first_difference(const Answered& a, const Answered& b) {
  if (const auto n = first_difference(a.first_sample, b.first_sample)) return n;
  if (const auto n = first_difference(a.others, b.others)) return a.first_sample.size() + *n;
  return std::nullopt;
}
double element(const Answered& a, std::size_t n) {
  return n < a.first_sample.size() ? a.first_sample[n] : a.others.at(n - a.first_sample.size());
}

// The first answer at every size.
struct Sizes {
  std::vector<Problem> problems;
  std::vector<Answered> first;
};

class Repetition {
 public:
  Repetition(const SubjectFactory& factory, Subject& subject, const Op& op, Format dtype, const Contract& contract)
      : factory_(factory), subject_(subject), probes_(*op.probes()), contract_(contract), supports_(factory.info()) {
    for (Problem& problem : probes_.sizes(supports_, dtype)) {
      Answered answered = ops::ask(problem, subject_);
      if (!is_done(answered)) {
        refusal_ = answered.call.message;
        if (answered.call.status != CallStatus::unsupported) failed_.push_back(problem);
        continue;
      }
      if (seconds_of(answered) > most_seconds && !sizes_.problems.empty()) break;
      sizes_.problems.push_back(std::move(problem));
      sizes_.first.push_back(std::move(answered));
    }
  }

  std::vector<ProbeRow> rows() {
    std::vector<ProbeRow> all;
    all.push_back(reruns());
    all.push_back(instances());
    all.push_back(threads());
    all.push_back(batch());
    return all;
  }

 private:
  [[nodiscard]] ProbeRow row(std::string_view stage, std::string promised) const {
    ProbeRow row;
    row.stage = stage;
    row.promised = std::move(promised);
    if (!failed_.empty()) {
      row.observed = ops::cannot_tell("a call failed: " + refusal_);
      row.standing = Standing::contradicts;
      row.evidence = failed_.front();
    } else if (sizes_.problems.empty()) {
      row.observed = ops::cannot_tell("refused: " + refusal_);
    }
    return row;
  }
  [[nodiscard]] bool asked() const { return failed_.empty() && !sizes_.problems.empty(); }

  // Holds the answer of `again` to every problem against the first one. False at the first difference, which `row`
  // tells.
  template <class Again>
  bool all_equal(ProbeRow& row, Again&& again) {
    for (std::size_t n = 0; n < sizes_.problems.size(); ++n) {
      const Answered other = again(sizes_.problems[n]);
      if (!is_done(other)) continue;
      row.evidence = sizes_.problems[n];
      if (const auto at = first_difference(sizes_.first[n], other)) {
        row.observed = "bits differ";
        row.note = fmt::format("element {} of out: {:.9g}, then {:.9g}", *at, element(sizes_.first[n], *at),
                               element(other, *at));
        return false;
      }
    }
    row.observed = ops::equal_bits;
    return true;
  }

  [[nodiscard]] std::string said() const {
    const auto promise = probes_.deterministic(contract_);
    return !promise                           ? "not said"
           : *promise == Deterministic::no    ? "no"
           : *promise == Deterministic::rerun ? "rerun"
                                              : "threads";
  }

  // One after the other, so that each comes behind calls of other shapes, and twice at once.
  ProbeRow reruns() {
    ProbeRow told = row(ops::row_reruns, said());
    if (!asked()) return told;
    constexpr int rounds = 5;
    bool equal = true;
    for (int round = 0; round < rounds && equal; ++round)
      equal = all_equal(told, [&](const Problem& problem) {
        if (round % 2 == 1) ops::ask(problem, subject_);
        return ops::ask(problem, subject_);
      });
    if (equal) told.note = fmt::format("{} more calls of {} sizes in turn", rounds, sizes_.problems.size());
    const bool promised = told.promised == "rerun" || told.promised == "threads";
    told.standing = !promised ? Standing::unsaid : equal ? Standing::agrees : Standing::contradicts;
    return told;
  }

  ProbeRow instances() {
    ProbeRow told = row(ops::row_instances, "not said");
    if (!asked()) return told;
    constexpr int fresh = 2;
    bool equal = true;
    for (int n = 0; n < fresh && equal; ++n) {
      const std::unique_ptr<Subject> other = factory_.open();
      equal = all_equal(told, [&](const Problem& problem) { return ops::ask(problem, *other); });
    }
    if (equal) told.note = fmt::format("{} of them, {} sizes each", fresh, sizes_.problems.size());
    told.standing = Standing::unsaid;
    return told;
  }

  ProbeRow threads() {
    ProbeRow told = row(ops::row_threads, said() == "threads" ? std::string(ops::equal_bits) : "not said");
    if (!asked()) return told;
    bool equal = true;
    for (const Index threads : {1, 2, 3, 8}) {
      equal = equal && all_equal(told, [&](const Problem& problem) {
                const auto other = probes_.with_threads(problem, threads);
                return other ? ops::ask(*other, subject_) : Answered{{CallStatus::unsupported, "", 0}, {}, {}};
              });
      if (!equal) {
        if (told.evidence) told.evidence = probes_.with_threads(*told.evidence, threads);
        break;
      }
    }
    if (equal) told.note = "1, 2, 3 and 8 threads, or as many as it takes";
    told.standing = told.promised == "not said" ? Standing::unsaid : equal ? Standing::agrees : Standing::contradicts;
    return told;
  }

  ProbeRow batch() {
    const auto promise = probes_.batch_invariant(contract_);
    ProbeRow told = row(ops::row_batch, !promise                               ? "not said"
                                        : *promise == BatchInvariance::bitwise ? "bitwise"
                                                                               : "bounded");
    if (!asked()) return told;
    Index equal_up_to = 1, other_from = 0;
    std::string breach;
    for (const Index samples : probes_.sample_counts()) {
      bool any = false;
      for (std::size_t n = 0; n < sizes_.problems.size() && other_from == 0; ++n) {
        const auto batched = probes_.with_samples(sizes_.problems[n], samples, supports_);
        if (!batched || seconds_of(sizes_.first[n]) * static_cast<double>(samples) > most_seconds) continue;
        const Answered answered = ops::ask(*batched, subject_);
        if (!is_done(answered)) continue;
        any = true;
        const auto at = first_difference(sizes_.first[n].first_sample, answered.first_sample);
        if (!at && told.evidence) continue;
        told.evidence = *batched;
        if (!at) continue;
        other_from = samples;
        told.note = fmt::format("element {} of the first sample: {:.9g} alone, {:.9g} among {}", *at,
                                element(sizes_.first[n], *at), element(answered, *at), samples);
        breach = ops::breach(*batched, contract_, subject_);
      }
      if (other_from != 0 || !any) break;
      equal_up_to = samples;
    }
    if (other_from == 0 && equal_up_to == 1) {
      told.observed = ops::cannot_tell("the subject takes one sample");
      return told;
    }
    if (other_from == 0) {
      told.observed = fmt::format("{} up to {}", ops::equal_bits, equal_up_to);
      told.standing = promise ? Standing::agrees : Standing::unsaid;
      return told;
    }
    told.observed =
        fmt::format("other bits from {} on, {}", other_from, breach.empty() ? "within the bound" : "outside the bound");
    if (!breach.empty()) told.note = breach;
    const bool broken = !breach.empty() || (promise && *promise == BatchInvariance::bitwise);
    told.standing = broken ? Standing::contradicts : promise ? Standing::agrees : Standing::unsaid;
    return told;
  }

  const SubjectFactory& factory_;
  Subject& subject_;
  const ops::Probes& probes_;
  const Contract& contract_;
  const Supports supports_;
  Sizes sizes_;
  std::string refusal_ = "no size fits";
  std::vector<Problem> failed_;
};

}  // namespace

std::vector<ProbeRow> repetition(const SubjectFactory& factory, Subject& subject, const Op& op, Format dtype,
                                 const Contract& contract) {
  return Repetition(factory, subject, op, dtype, contract).rows();
}

std::vector<Speed> speeds(Subject& subject, const Op& op, Format dtype) {
  constexpr double enough = 0.1;  // seconds
  constexpr std::size_t most_calls = 50;
  std::vector<Speed> all;
  for (const Problem& problem : op.probes()->sizes(subject.info(), dtype)) {
    std::vector<double> seconds;
    double total = 0;
    while (seconds.size() < most_calls && total < enough) {
      const Answered answered = ops::ask(problem, subject);
      if (!is_done(answered)) break;
      seconds.push_back(std::max(1e-9, seconds_of(answered)));
      total += seconds.back();
    }
    if (seconds.empty()) continue;
    std::ranges::nth_element(seconds, seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2));
    const double median = seconds[seconds.size() / 2];
    all.push_back({dtype, problem, 1 / median, static_cast<double>(work_of(problem)) / median});
    if (total > 1) break;
  }
  return all;
}

}  // namespace attest::engine

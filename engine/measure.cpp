#include "engine/measure.hpp"

#include <algorithm>
#include <array>
#include <chrono>

#include <fmt/format.h>

#include "core/error.hpp"
#include "engine/check.hpp"
#include "engine/instance.hpp"
#include "engine/stream.hpp"

namespace attest::engine {
namespace {

constexpr std::array<std::string_view, 7> attention_sizes{
    "op=attention b=1 hq=1 hkv=1 lq=4 lk=8 d=8 dv=8 values=normal seed=1",
    "op=attention b=2 hq=4 hkv=4 lq=16 lk=16 d=16 dv=16 values=normal seed=1",
    "op=attention b=2 hq=4 hkv=2 lq=17 lk=33 d=16 dv=16 causal=1 values=normal seed=1",
    "op=attention b=1 hq=8 hkv=8 lq=128 lk=128 d=64 dv=64 values=normal seed=1",
    "op=attention b=1 hq=8 hkv=8 lq=128 lk=128 d=64 dv=64 causal=1 values=normal seed=1",
    "op=attention b=1 hq=8 hkv=8 lq=512 lk=512 d=64 dv=64 values=normal seed=1",
    "op=attention b=1 hq=16 hkv=16 lq=1 lk=4096 d=128 dv=128 values=normal seed=1"};
constexpr std::array<std::string_view, 4> layer_norm_sizes{
    "op=layer_norm rows=1 hidden=16 values=normal seed=1", "op=layer_norm rows=16 hidden=64 values=normal seed=1",
    "op=layer_norm rows=128 hidden=768 values=normal seed=1", "op=layer_norm rows=64 hidden=4096 values=normal seed=1"};
constexpr std::array<std::string_view, 3> mha_sizes{
    "op=mha b=1 l=4 m=4 e=16 heads=2 kv_heads=2 head_dim=8 self=1 weights=dense seed=1",
    "op=mha b=1 l=16 m=16 e=64 heads=4 kv_heads=4 head_dim=16 self=1 weights=dense seed=1",
    "op=mha b=2 l=64 m=64 e=256 heads=4 kv_heads=4 head_dim=64 self=1 weights=dense seed=1"};

double median(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// One subject on one problem, some repeats at a time.
class Runner {
 public:
  Runner(Station& station, const Problem& problem, const Contract& contract)
      : station_(station), problem_(problem), contract_(contract), laws_{law_named(policy_bound_name, problem.op())} {}

  // False if the call could not be made.
  bool run(double seconds) {
    using Clock = std::chrono::steady_clock;
    const auto since = [](Clock::time_point begin) {
      return std::chrono::duration<double>(Clock::now() - begin).count();
    };
    const Clock::time_point begin = Clock::now();
    do {
      const Clock::time_point before = Clock::now();
      const CaseOutcome outcome = check(problem_, contract_, station_.bench(), laws_);
      last_ = outcome.laws.front().verdict;
      if (last_->kind == VerdictKind::skip || ends_instance(last_->kind) || last_->kind == VerdictKind::error ||
          outcome.subject_calls == 0)
        return false;
      problems_.push_back(since(before));
      calls_.push_back(outcome.seconds.subject / static_cast<double>(outcome.subject_calls));
    } while (since(begin) < seconds);
    return true;
  }

  [[nodiscard]] const Verdict& verdict() const { return *last_; }
  [[nodiscard]] Cost cost() {
    const int repeats = static_cast<int>(calls_.size());
    return {median(calls_), median(problems_), repeats};
  }

 private:
  Station& station_;
  const Problem& problem_;
  const Contract contract_;
  const std::array<std::size_t, 1> laws_;
  std::optional<Verdict> last_;
  std::vector<double> calls_, problems_;
};

std::optional<std::string> declined(const Problem& problem, const SubjectInfo& info) {
  const Op& op = problem.op();
  if (!op.offered(info)) return fmt::format("it does not offer {}", op.name());
  return op.declined(problem, info, op.dtypes(info));
}

}  // namespace

std::span<const std::string_view> usual_sizes(const Op& op) {
  if (op.name() == "layer_norm") return layer_norm_sizes;
  if (op.name() == "mha") return mha_sizes;
  if (op.name() == "attention") return attention_sizes;
  return {};
}

std::string usual_peer(const Op& op) {
  return op.name() == "layer_norm" ? "builtin:ln-fused" : op.name() == "mha" ? "builtin:mha-fused" : "builtin:fused";
}

std::vector<Measured> measure(const SubjectFactory& subject, const SubjectFactory& beside,
                              const MeasureOptions& options) {
  const Op& op = *options.op;
  std::vector<std::string> texts = options.problems;
  const Format dtype = options.policy ? op.storage(*options.policy) : op.dtypes(subject.info()).front();
  if (texts.empty())
    for (const std::string_view size : usual_sizes(op))
      texts.push_back(fmt::format("{} dtype={}", size, format_names[static_cast<std::size_t>(dtype)]));

  Station station(subject, nullptr, nullptr), other(beside, nullptr, nullptr);
  std::vector<Measured> all;
  for (const std::string& text : texts) {
    Measured& at = all.emplace_back();
    at.problem = problem_from_text(text);
    if (at.problem.op().name() != op.name())
      throw usage_error(fmt::format("{} is a problem of {}, not of {}", text, at.problem.op().name(), op.name()));
    validate(at.problem);
    at.work = op.work(at.problem);
    if (const auto why = declined(at.problem, subject.info())) {
      at.skipped = *why;
      continue;
    }
    Runner own(station, at.problem, contract_for_problem(subject.info(), options.policy, at.problem));
    std::optional<Runner> peer;
    if (!declined(at.problem, beside.info()))
      peer.emplace(other, at.problem, contract_for_problem(beside.info(), options.policy, at.problem));
    for (int round = 0; round < options.rounds && at.skipped.empty(); ++round) {
      if (!own.run(options.seconds))
        at.skipped = own.verdict().reason.empty() ? "the call failed" : own.verdict().reason;
      if (at.skipped.empty() && peer && !peer->run(options.seconds)) peer.reset();
    }
    if (!at.skipped.empty()) continue;
    at.subject = own.cost();
    if (own.verdict().kind != VerdictKind::vacuous) at.held = own.verdict().kind != VerdictKind::fail;
    if (peer) at.beside = peer->cost();
  }
  return all;
}

}  // namespace attest::engine

#include "properties/trial.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "core/supports.hpp"
#include "properties/nonfinite.hpp"

namespace attest::properties {
namespace {

// Adds the time until its end to `total`.
class Stopwatch {
 public:
  explicit Stopwatch(std::int64_t& total) noexcept : total_(total) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() { total_ += std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  std::int64_t& total_;
  Clock::time_point start_ = Clock::now();
};

Evidence memory_evidence(std::string tensor, std::string note) {
  Evidence evidence;
  evidence.tensor = std::move(tensor);
  evidence.ratio = std::numeric_limits<double>::infinity();
  evidence.wrong = Wrong::memory;
  evidence.note = std::move(note);
  return evidence;
}

// Guard bytes and gaps still hold what they held, and no element still holds the poison it was given.
std::optional<Evidence> output_violation(const Tensor& tensor, const char* name) {
  if (!tensor.present()) return std::nullopt;
  switch (tensor.damage()) {
    case Tensor::Damage::none:
      break;
    case Tensor::Damage::before:
      return memory_evidence(name, std::string("bytes before ") + name + " were written");
    case Tensor::Damage::after:
      return memory_evidence(name, std::string("bytes after ") + name + " were written");
    case Tensor::Damage::gap:
      return memory_evidence(name, std::string("bytes between the rows or elements of ") + name + " were written");
  }
  std::optional<Evidence> unwritten;
  for_each_nonfinite(tensor, [&](std::array<Index, 4> index) {
    if (!tensor.is_poison(index[0], index[1], index[2], index[3])) return true;
    unwritten = memory_evidence(name, std::string("this element of ") + name + " was never written");
    unwritten->index = index;
    unwritten->got = std::numeric_limits<double>::quiet_NaN();
    return false;
  });
  return unwritten;
}

std::size_t bytes_in(const Tensor& tensor) {
  const MemoryParts parts = tensor.parts();
  return parts.count * parts.size;
}

// The bytes of the inputs of one trip, to compare afterwards. One buffer a thread, since a campaign makes many short
// trips.
class Snapshot {
 public:
  explicit Snapshot(std::span<const Request> calls) {
    std::size_t bytes = 0;
    for (const Request& call : calls)
      for (const auto member : Inputs::members) bytes += bytes_in(call.inputs->*member);
    if (bytes > capacity) buffer = std::make_unique_for_overwrite<std::byte[]>(capacity = bytes);
    std::byte* to = buffer.get();
    for (const Request& call : calls)
      for (const auto member : Inputs::members) {
        const MemoryParts now = (call.inputs->*member).parts();
        for (std::size_t n = 0; n < now.count; ++n, to += now.size) std::memcpy(to, now.part(n).data(), now.size);
      }
    next_ = buffer.get();
  }
  ~Snapshot() {
    if (capacity > most_kept) buffer.reset(), capacity = 0;
  }
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  // The first input of the next call that differs from the bytes it had; each is put back, so that later calls see what
  // they should.
  std::optional<Evidence> restore(const Inputs& inputs) {
    std::optional<Evidence> first;
    for (const auto& [name, tensor] : inputs.named()) {
      const MemoryParts now = tensor.parts();
      for (std::size_t n = 0; n < now.count; ++n, next_ += now.size) {
        std::byte* part = now.part(n).data();
        if (std::memcmp(part, next_, now.size) == 0) continue;
        if (!first) first = memory_evidence(std::string(name), "the input " + std::string(name) + " was modified");
        std::memcpy(part, next_, now.size);
      }
    }
    return first;
  }

 private:
  static constexpr std::size_t most_kept = std::size_t{1} << 26;
  static thread_local std::unique_ptr<std::byte[]> buffer;
  static thread_local std::size_t capacity;
  const std::byte* next_;
};
thread_local std::unique_ptr<std::byte[]> Snapshot::buffer;
thread_local std::size_t Snapshot::capacity = 0;

bool failed(const Result& result) {
  return result.call.status != CallStatus::done && result.call.status != CallStatus::unsupported;
}

// Runs the calls that the subject takes, and returns how many; the others end as unsupported, without its being asked.
std::int64_t run_supported(Subject& subject, std::span<const Call> calls, std::span<Result> results,
                           std::int64_t& elapsed) {
  const SubjectInfo& info = subject.info();
  std::vector<Call> asked;
  std::vector<std::size_t> places;
  for (std::size_t n = 0; n < calls.size(); ++n) {
    if (auto why = declined(calls[n], info.supports, info.dtypes)) {
      results[n].call = {CallStatus::unsupported, std::move(*why), 0};
    } else {
      asked.push_back(calls[n]);
      places.push_back(n);
    }
  }
  if (asked.empty()) return 0;
  const Stopwatch watch(elapsed);
  std::vector<CallResult> done = subject.run(asked);
  for (std::size_t n = 0; n < places.size(); ++n) results[places[n]].call = std::move(done.at(n));
  return static_cast<std::int64_t>(asked.size());
}

// Whether these forms are the subject's too, or its own are other ones.
bool offers(const Supports& supports, std::span<const FormChoice> choices) {
  return std::ranges::all_of(choices, [&](const FormChoice& choice) {
    const auto offer = std::ranges::find(supports.forms, choice.name, &FormOffer::name);
    return offer != supports.forms.end() && std::ranges::count(offer->values, choice.value) != 0;
  });
}

Inputs timed_materialise(const Problem& problem, std::int64_t& total) {
  const Stopwatch watch(total);
  return materialise(problem);
}

}  // namespace

Trial::Trial(const Problem& problem, const Contract& contract, Subject& subject, Subject* peer)
    : problem_(problem),
      contract_(contract),
      subject_(subject),
      peer_(peer),
      inputs_(timed_materialise(problem_, elapsed_.values)) {}

Trial::Trial(const Problem& problem, Inputs inputs, const Contract& contract, Subject& subject)
    : problem_(problem), contract_(contract), subject_(subject), peer_(nullptr), inputs_(std::move(inputs)) {}

std::vector<Result> Trial::call(Subject& subject, std::span<const Request> calls) {
  std::vector<Result> results(calls.size());
  std::vector<Call> raw;
  raw.reserve(calls.size());
  for (std::size_t n = 0; n < calls.size(); ++n) {
    results[n].out = make_out(*calls[n].problem);
    results[n].lse = make_lse(*calls[n].problem);
    raw.emplace_back(calls[n].inputs->call(results[n].out, results[n].lse));
    if (&subject != &subject_ && !offers(subject.info().supports, calls[n].problem->forms)) raw[n].set_form(nullptr);
  }
  Snapshot before(calls);
  const std::int64_t asked = run_supported(subject, raw, results, elapsed_.subject);
  if (&subject == &subject_) subject_calls_ += asked;
  for (std::size_t n = 0; n < calls.size(); ++n) {
    const std::optional<Evidence> modified = before.restore(*calls[n].inputs);
    if (results[n].call.status != CallStatus::done) continue;
    results[n].violation = output_violation(results[n].out, "out");
    if (!results[n].violation) results[n].violation = output_violation(results[n].lse, "lse");
    if (!results[n].violation) results[n].violation = modified;
  }
  return results;
}

std::vector<Result> Trial::attempt_many(std::span<const Request> calls) {
  std::vector<Result> results = call(subject_, calls);
  for (const Result& result : results) {
    if (failed(result)) throw CallFailed(result.call);
    if (!violation_) violation_ = result.violation;
  }
  return results;
}

std::vector<Result> Trial::run_many(std::span<const Request> calls) {
  std::vector<Result> results = attempt_many(calls);
  for (const Result& result : results)
    if (result.call.status != CallStatus::done) throw CallFailed(result.call);
  return results;
}

Result Trial::run(const Inputs& inputs, const Problem& problem) {
  const Request one[] = {{&inputs, &problem}};
  return std::move(run_many(one).front());
}

Result Trial::run(const Problem& problem) { return run(timed_materialise(problem, elapsed_.values), problem); }

const Result& Trial::base() {
  if (!base_) {
    const Request one[] = {{&inputs_, &problem_}};
    base_ = std::move(call(subject_, one).front());
    if (!violation_) violation_ = base_->violation;
  }
  if (base_->call.status != CallStatus::done) throw CallFailed(base_->call);
  return *base_;
}

void Trial::call_peer() {
  if (peer_base_) return;
  const Request one[] = {{&inputs_, &problem_}};
  peer_base_ = std::move(call(*peer_, one).front());
}

const Result* Trial::peer_base() {
  if (!peer_) return nullptr;
  const std::int64_t subject_time = elapsed_.subject;
  call_peer();
  elapsed_.subject = subject_time;
  return peer_base_->call.status == CallStatus::done ? &*peer_base_ : nullptr;
}

const Result& Trial::peer_result() {
  if (!peer_base_) {
    call_peer();
    ++subject_calls_;
  }
  if (peer_base_->call.status == CallStatus::done) return *peer_base_;
  CallResult failed = peer_base_->call;
  failed.message = peer_prefix + failed.message;
  throw CallFailed(std::move(failed));
}

oracle::Oracle& Trial::oracle() {
  if (!oracle_) {
    const Stopwatch watch(elapsed_.oracle);
    oracle_ = oracle::make_oracle(contract_, problem_, inputs_);
  }
  return *oracle_;
}

const Verdict& Trial::judgement() {
  if (!judgement_) {
    if (statistics_announced_)
      statistics();
    else
      judgement_ = judge(base().out, base().lse);
  }
  return *judgement_;
}

const oracle::Statistics& Trial::statistics() {
  if (!statistics_) {
    const Result& result = base();
    oracle::Oracle& judge = oracle();
    const Stopwatch watch(elapsed_.oracle);
    judgement_ = judge.judge(result.out, result.lse, &statistics_.emplace());
  }
  return *statistics_;
}

const oracle::Thresholds& Trial::thresholds() {
  if (!thresholds_) thresholds_ = calibration_->thresholds(contract_.policy, problem_);
  return *thresholds_;
}

Verdict Trial::judge(const Tensor& out, const Tensor& lse) {
  oracle::Oracle& judge = oracle();
  const Stopwatch watch(elapsed_.oracle);
  return judge.judge(out, lse);
}

}  // namespace attest::properties

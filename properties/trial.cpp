#include "properties/trial.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/supports.hpp"
#include "properties/guarded.hpp"
#include "properties/nonfinite.hpp"

namespace attest::properties {
namespace {

bool failed(const Result& result) {
  return result.call.status != CallStatus::done && result.call.status != CallStatus::unsupported;
}

// Runs the calls that the subject takes, and returns how many; the others end as unsupported, without its being asked.
std::int64_t run_supported(Subject& subject, std::span<const Call> calls, std::span<Result> results,
                           std::int64_t& elapsed) {
  const SubjectInfo& info = subject.info();
  std::size_t supported = 0;
  for (std::size_t n = 0; n < calls.size(); ++n) {
    if (auto why = declined(calls[n], info.supports, info.dtypes))
      results[n].call = {CallStatus::unsupported, std::move(*why), 0};
    else
      ++supported;
  }
  if (supported == 0) return 0;
  if (supported == calls.size()) {  // mostly: nothing is sorted out
    const Stopwatch watch(elapsed);
    std::vector<CallResult> done = subject.run(calls);
    for (std::size_t n = 0; n < calls.size(); ++n) results[n].call = std::move(done.at(n));
    return static_cast<std::int64_t>(supported);
  }
  std::vector<Call> asked;
  std::vector<std::size_t> places;
  for (std::size_t n = 0; n < calls.size(); ++n) {
    if (results[n].call.status == CallStatus::unsupported) continue;
    asked.push_back(calls[n]);
    places.push_back(n);
  }
  const Stopwatch watch(elapsed);
  std::vector<CallResult> done = subject.run(asked);
  for (std::size_t n = 0; n < places.size(); ++n) results[places[n]].call = std::move(done.at(n));
  return static_cast<std::int64_t>(asked.size());
}

// Tells whether these forms are the subject's too, or its own are other ones.
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
      drawn_(true),
      inputs_(timed_materialise(problem_, elapsed_.values)) {}

Trial::Trial(const Problem& problem, Inputs inputs, const Contract& contract, Subject& subject)
    : problem_(problem),
      contract_(contract),
      subject_(subject),
      peer_(nullptr),
      drawn_(false),
      inputs_(std::move(inputs)) {}

std::vector<Result> Trial::call(Subject& subject, std::span<const Request> calls) {
  std::vector<Result> results(calls.size());
  std::vector<Call> raw;
  raw.reserve(calls.size());
  for (std::size_t n = 0; n < calls.size(); ++n) {
    const std::int64_t number = calls_made_++;
    results[n].out = make_out(*calls[n].problem, fence_of(problem_.seed, number, 0));
    results[n].lse = make_lse(*calls[n].problem, fence_of(problem_.seed, number, 1));
    raw.emplace_back(calls[n].inputs->call(results[n].out, results[n].lse));
    if (&subject != &subject_ && !offers(subject.info().supports, calls[n].problem->forms)) raw[n].set_form(nullptr);
  }
  std::vector<std::vector<Inputs::Named>> inputs;
  inputs.reserve(calls.size());
  for (const Request& call : calls) inputs.push_back(call.inputs->named());
  const Redrawn redrawn{inputs_, [this] { return materialise(problem_); }};
  Snapshot before(inputs, drawn_ ? &redrawn : nullptr);
  const std::int64_t asked = run_supported(subject, raw, results, elapsed_.subject);
  if (&subject == &subject_) subject_calls_ += asked;
  for (std::size_t n = 0; n < calls.size(); ++n) {
    const std::optional<Evidence> modified = before.restore(inputs[n]);
    if (results[n].call.status != CallStatus::done) continue;
    results[n].out_finite = all_finite(results[n].out);
    results[n].lse_finite = all_finite(results[n].lse);
    results[n].violation = output_violation(results[n].out, "out", results[n].out_finite);
    if (!results[n].violation) results[n].violation = output_violation(results[n].lse, "lse", results[n].lse_finite);
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

CallFailed failed_peer(CallResult call) {
  call.message = peer_prefix + call.message;
  return CallFailed(std::move(call));
}

const Result& Trial::peer_result() {
  if (!peer_base_) {
    call_peer();
    ++subject_calls_;
  }
  if (peer_base_->call.status == CallStatus::done) return *peer_base_;
  throw failed_peer(peer_base_->call);
}

oracle::Oracle& Trial::oracle() {
  if (!oracle_) {
    const Stopwatch watch(elapsed_.oracle);
    oracle_ = oracle::make_oracle(contract_, problem_, inputs_);
  }
  return *oracle_;
}

const Verdict& Trial::judgement() {
  if (!judgement_) judgement_ = judge(base().out, base().lse);
  return *judgement_;
}

Verdict Trial::judge(const Tensor& out, const Tensor& lse) {
  oracle::Oracle& judge = oracle();
  const Stopwatch watch(elapsed_.oracle);
  return judge.judge(out, lse);
}

}  // namespace attest::properties

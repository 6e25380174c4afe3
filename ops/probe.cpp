#include "ops/probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ops/op.hpp"
#include "ops/probe/shown.hpp"

namespace attest::ops {

std::string_view name(Standing standing) noexcept {
  constexpr std::string_view names[] = {"agrees", "unsaid", "open", "contradicts"};
  return names[static_cast<int>(standing)];
}

std::string cannot_tell(std::string_view reason) { return fmt::format("cannot tell ({})", reason); }

bool holds(Format outer, Format inner) noexcept {
  return precision(outer) >= precision(inner) && largest_finite(outer) >= round_to(outer, largest_finite(inner)) &&
         min_exponent(outer) <= min_exponent(inner);
}

std::string format_in_words(std::optional<Format> at_least, std::optional<Format> at_most, std::string_view reason) {
  if (at_least && at_most && *at_least == *at_most) return std::string(name(*at_least));
  if (at_least && at_most) return fmt::format("from {} to {}", name(*at_least), name(*at_most));
  if (at_least) return fmt::format("not narrower than {}", name(*at_least));
  if (at_most) return fmt::format("{} or narrower", name(*at_most));
  return cannot_tell(reason);
}

Answered ask(const Problem& problem, Subject& subject) {
  const Op& op = problem.op();
  const std::unique_ptr<Exchange> exchange = op.exchange(problem);
  const SubjectInfo& info = subject.info();
  Answered answered;
  if (auto why = op.declined(problem, Supports(info), op.dtypes(info))) {
    answered.call = {CallStatus::unsupported, std::move(*why), 0};
    return answered;
  }
  answered.call = subject.run_one(exchange->call());
  if (answered.call.status != CallStatus::done) return answered;
  const Tensor& out = *exchange->outputs().front().tensor;
  for_each_index(out.shape(), [&](Index a, Index b, Index c, Index d) {
    (a == 0 ? answered.first_sample : answered.others).push_back(out.at(a, b, c, d));
  });
  return answered;
}

std::string breach(const Problem& problem, const Contract& contract, Subject& subject) {
  return probing::Shown(problem, contract, subject).witness();
}

}  // namespace attest::ops

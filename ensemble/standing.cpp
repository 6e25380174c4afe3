#include "ensemble/standing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace attest::ensemble {
namespace {

double ulp_of(Format format, double x) {
  return std::ldexp(1.0, std::ilogb(std::max(std::fabs(x), smallest_normal(format))) - precision(format) + 1);
}

double error_of(double got, long double exact) { return static_cast<double>(std::fabs(got - exact)); }

long double squared(double x) { return static_cast<long double>(x) * x; }

}  // namespace

// Squares are summed in long double, whose exponents hold those of any double.
Standing::Standing(Sample sample)
    : sample_(std::move(sample)),
      counts_(sample_.got.size()),
      own_(sample_.got.size()),
      ulp_(sample_.got.size()),
      largest_(sample_.got.size()) {
  for (std::size_t i = 0; i < own_.size(); ++i) {
    const auto y = static_cast<double>(sample_.exact[i]);
    counts_[i] = std::isfinite(y) && std::isfinite(sample_.got[i]);
    if (!counts_[i]) continue;
    own_[i] = error_of(sample_.got[i], sample_.exact[i]);
    ulp_[i] = ulp_of(sample_.format, y);
  }
  count();
}

void Standing::count() {
  count_ = 0;
  squares_ = 0;
  long double roundings = 0;
  for (Member& member : members_) member.squares = 0;
  for (std::size_t i = 0; i < own_.size(); ++i) {
    if (!counts_[i]) continue;
    ++count_;
    squares_ += squared(own_[i]);
    roundings += squared(ulp_[i]) / 12;
    for (Member& member : members_) member.squares += squared(member.errors[i]);
  }
  const double few = 1 + 2.5 / std::sqrt(static_cast<double>(std::max<std::size_t>(count_, 1)));
  floor_ = roundings * squared(few);
}

void Standing::add(const std::vector<double>& results) {
  Member& member = members_.emplace_back();
  member.errors.resize(own_.size());
  bool fewer = false;
  for (std::size_t i = 0; i < own_.size(); ++i) {
    if (!counts_[i]) continue;
    if (!std::isfinite(results[i])) {
      counts_[i] = 0;
      fewer = true;
      continue;
    }
    member.errors[i] = error_of(results[i], sample_.exact[i]);
    member.squares += squared(member.errors[i]);
    member.apart += squared(results[i] - sample_.got[i]);
    largest_[i] = std::max(largest_[i], member.errors[i]);
  }
  if (fewer) count();
}

double Standing::r() const {
  long double most = floor_;
  for (const Member& member : members_) most = std::max(most, member.squares);
  return most > 0 ? static_cast<double>(std::sqrt(squares_ / most)) : 0;
}

double Standing::beyond(std::size_t i) const { return counts_[i] ? own_[i] / (largest_[i] + ulp_[i]) : 0; }

bool Standing::among(int most) {
  const auto stands_out = [this] { return !(r() <= largest_r); };
  if (stands_out() && members_.empty() && sample_.native) {
    if (const std::vector<double> results = sample_.native(); !results.empty()) {
      native_ = true;
      add(results);
    }
  }
  while (stands_out() && asked_ < most) add(sample_.member(asked_++));
  return stands_out();
}

Standing::Element Standing::worst() const {
  std::size_t at = 0;
  for (std::size_t i = 0; i < own_.size(); ++i)
    if (beyond(i) > beyond(at)) at = i;
  return {sample_.places[at], sample_.got[at], static_cast<double>(sample_.exact[at]), largest_[at]};
}

std::string Standing::nearest() const {
  const auto apart = [](const Member& a, const Member& b) { return a.apart < b.apart; };
  const auto nearest = std::min_element(members_.begin(), members_.end(), apart);
  if (nearest == members_.end()) return "none asked";
  auto n = static_cast<int>(nearest - members_.begin());
  if (native_ && n-- == 0) return "the built-in explicit kernel";
  return sample_.scheme(n);
}

}  // namespace attest::ensemble

#include "kernels/emulated/steered.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/rng.hpp"
#include "kernels/emulated/emulator.hpp"

namespace attest::emulator {
namespace {

constexpr int most_orders = 3000;

// Looks for an order in which f32 terms, added one after the other, come to a sum whose quotient by `total` is
// `target`. A term that meets a large sum is rounded to the sum's own grid, so that its error does not depend on its
// place. Terms whose errors point to the target are added while the sum is large, as many as it takes, and all others
// while it is small.
class Steering {
 public:
  Steering(const std::vector<double>& terms, double total, double target, Format out)
      : terms_(terms),
        total_(static_cast<float>(total)),
        target_(target),
        out_(out),
        placed_(terms.size()),
        helps_(terms.size()) {
    const double sum = std::accumulate(terms.begin(), terms.end(), 0.0);
    needed_ = target * total - sum;
    double positive = 0, negative = 0;
    for (const double t : terms) (t > 0 ? positive : negative) += std::fabs(t);
    up_ = positive >= negative;  // the sum is large on the side where there is more
    const double most = std::max(positive, negative);
    if (!(most > 0) || !std::isfinite(most)) return;
    height_ = std::exp2(std::floor(std::log2(0.75 * most)));
    for (std::size_t n = 0; n < terms.size(); ++n) {
      by_size_.push_back(n);
      if (gain(n) > 0) helpful_.push_back(n);
    }
    std::ranges::stable_sort(by_size_, std::greater{}, [&](std::size_t n) { return std::fabs(terms_[n]); });
    std::ranges::stable_sort(helpful_, std::greater{}, [&](std::size_t n) { return gain(n); });
  }

  // Empty if none was found.
  std::vector<std::size_t> find() {
    std::size_t few = 0, many = helpful_.size();
    std::uint64_t key = 1;
    for (int tried = 0; tried < most_orders && height_ > 0; ++tried) {
      const bool narrowing = many - few > 1;
      const std::size_t first = few - std::min<std::size_t>(few, 8), last = std::min(helpful_.size(), few + 8);
      key = mix(key);
      const std::size_t at = narrowing ? (few + many) / 2 : first + below(key, last - first + 1);
      const std::vector<std::size_t> order = arranged(at, key);
      const float sum = added(order);
      if (round_to(out_, static_cast<double>(sum / total_)) == target_) return order;
      const double missing = (target_ * static_cast<double>(total_) - static_cast<double>(sum)) * side();
      if (narrowing) (missing > 0 ? few : many) = at;
    }
    return {};
  }

 private:
  [[nodiscard]] double side() const { return needed_ < 0 ? -1 : 1; }
  // The gain where the term meets a sum in [height, 2 height).
  [[nodiscard]] double gain(std::size_t n) const {
    const double ulp = height_ * 0x1p-23;
    return (std::nearbyint(terms_[n] / ulp) * ulp - terms_[n]) * side();
  }
  [[nodiscard]] bool climbs(std::size_t n) const { return (terms_[n] > 0) == up_; }

  // The first `count` helpful terms at the height, and the others below it, in an order that `key` changes.
  std::vector<std::size_t> arranged(std::size_t count, std::uint64_t key) {
    order_.clear();
    at_ = 0;
    placed_.assign(terms_.size(), false);
    helps_.assign(terms_.size(), false);
    for (std::size_t n = 0; n < count; ++n) helps_[helpful_[n]] = true;
    for (const bool helpful : {false, true})  // up, on the largest
      for (const std::size_t n : by_size_)
        if (at_ < 1.25 * height_ && climbs(n) && !placed_[n] && helps_[n] == helpful) add(n);
    level(not_placed([&](std::size_t n) { return helps_[n]; }), 1.5 * height_);
    for (const std::size_t n : by_size_)  // down, on the largest
      if (at_ > 0 && !climbs(n) && !placed_[n]) add(n);
    std::vector<std::size_t> rest = not_placed([](std::size_t) { return true; });
    for (std::size_t n = rest.size(); n > 1; --n) std::swap(rest[n - 1], rest[below(key = mix(key), n)]);
    level(rest, 0);
    return order_;
  }
  void add(std::size_t n) {
    placed_[n] = true;
    at_ += up_ ? terms_[n] : -terms_[n];
    order_.push_back(n);
  }
  template <class Which>
  [[nodiscard]] std::vector<std::size_t> not_placed(Which&& which) const {
    std::vector<std::size_t> some;
    for (const std::size_t n : by_size_)
      if (!placed_[n] && which(n)) some.push_back(n);
    return some;
  }
  // Adds all of `some`, the sum kept about `there` as long as they last.
  void level(const std::vector<std::size_t>& some, double there) {
    std::vector<std::size_t> climbing, falling;
    for (const std::size_t n : some) (climbs(n) ? climbing : falling).push_back(n);
    while (!climbing.empty() || !falling.empty()) {
      const bool rise = falling.empty() || (!climbing.empty() && at_ < there);
      std::vector<std::size_t>& from = rise ? climbing : falling;
      add(from.back());
      from.pop_back();
    }
  }

  [[nodiscard]] float added(const std::vector<std::size_t>& order) const {
    float sum = static_cast<float>(terms_[order.front()]);
    for (std::size_t n = 1; n < order.size(); ++n) sum += static_cast<float>(terms_[order[n]]);
    return sum;
  }

  const std::vector<double>& terms_;
  float total_;
  double target_, needed_ = 0, height_ = 0;
  Format out_;
  bool up_ = true;
  std::vector<std::size_t> by_size_, helpful_, order_;
  double at_ = 0;  // the sum so far, counted upwards
  std::vector<bool> placed_, helps_;
};

bool is_for(const Contract& contract, const Problem& problem) {
  const Arithmetic& a = contract.arithmetic;
  return problem.b == 1 && problem.hq == 1 && problem.lq == 1 && problem.dv == 1 && problem.lse == LseOutput::none &&
         a.normalise_after && !(a.mma && a.mma->only) && contract.policy[Stage::pv] == Format::f32 &&
         contract.policy[Stage::softmax] == Format::f32;
}

}  // namespace

bool could_return(const Contract& contract, const Problem& problem, const Inputs& inputs, const Tensor& out) {
  if (!is_for(contract, problem)) return false;
  const double target = out.at(0, 0, 0, 0);
  if (!std::isfinite(target) || target == 0) return false;
  Variant variant;
  variant.normalise = Normalise::after;
  variant.sum_of_rounded = !contract.arithmetic.sum_of_unrounded;
  variant.arrange = [&](const std::vector<double>& terms, double total) {
    return Steering(terms, total, target, problem.dtype).find();
  };
  Tensor found = make_out(problem), lse;
  run(inputs, contract, variant, found, lse);
  return found.at(0, 0, 0, 0) == target;
}

}  // namespace attest::emulator

#include "tests/kernels/support.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "core/rng.hpp"

namespace attest::kernels::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Draws by counter: the n-th call of one seed is always the same.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : key_(mix(seed)) {}
  Index in(Index lo, Index hi) {
    return lo + static_cast<Index>(below(mix(key_ += 1), static_cast<std::uint64_t>(hi - lo + 1)));
  }
  bool one_in(Index n) { return in(1, n) == 1; }
  template <class Label>
  Label label(std::size_t count) {
    return static_cast<Label>(in(0, static_cast<Index>(count) - 1));
  }

 private:
  std::uint64_t key_;
};

struct Row {
  const Inputs& inputs;
  const Problem& p;
  Index b, h, i;

  [[nodiscard]] Index length() const {
    return inputs.kv_lengths.present() ? static_cast<Index>(inputs.kv_lengths.at(b)) : p.lk;
  }
  [[nodiscard]] bool open(Index j) const {
    const Index g = p.align == Align::top_left ? i : i + length() - p.lq;
    return j < length() && (!inputs.keep.present() || inputs.keep.at(b, h, i, j) != 0) && (!p.causal || j <= g) &&
           (p.window_left < 0 || g - j <= p.window_left) && (p.window_right < 0 || j - g <= p.window_right);
  }
  [[nodiscard]] double score(Index j, bool softcap_before_bias) const {
    if (!open(j)) return -infinity;
    double s = 0;
    for (Index e = 0; e < p.d; ++e) s += inputs.q.at(b, h, i, e) * inputs.k.at(b, h / p.group(), j, e);
    s *= inputs.scale;
    const double m = inputs.bias.present() ? inputs.bias.at(b, h, i, j) : 0;
    if (!softcap_before_bias) s += m;
    if (p.softcap > 0) s = p.softcap * std::tanh(s / p.softcap);
    return softcap_before_bias ? s + m : s;
  }
};

}  // namespace

Problem random_problem(std::uint64_t seed, Format dtype) {
  Dice dice(seed);
  Problem p;
  p.dtype = dtype;
  p.b = dice.in(1, 3);
  p.hkv = dice.in(1, 3);
  p.hq = p.hkv * dice.in(1, 3);
  p.lq = dice.one_in(20) ? dice.in(30, 70) : dice.in(1, 6);
  p.lk = dice.one_in(4) ? dice.in(60, 300) : dice.in(1, 20);
  p.d = dice.in(1, 35);
  p.dv = dice.one_in(2) ? p.d : dice.in(1, 35);
  if (dice.one_in(2)) p.scale = static_cast<double>(dice.in(-8, 8)) / 8;
  if (dice.one_in(3)) p.softcap = static_cast<double>(dice.in(1, 40));
  p.causal = dice.one_in(3);
  p.align = dice.label<Align>(2);
  if (dice.one_in(4)) p.window_left = dice.in(0, 20);
  if (dice.one_in(4)) p.window_right = dice.in(0, 20);
  if (dice.one_in(2)) p.keep = dice.label<Keep>(keep_count);
  p.keep_axes = dice.in(0, 15);
  if (dice.one_in(2)) p.bias = dice.label<Bias>(bias_count);
  // In a row at the lowest number throughout nothing is left of the scores, and variants may differ by all there is.
  if (p.bias == Bias::empty_lowest) p.bias = Bias::lowest;
  p.bias_axes = dice.in(0, 15);
  p.bias_type = dice.label<BiasType>(bias_type_count);
  p.mask_layout = dice.label<Layout>(7);  // no broadcast
  if (dice.one_in(3)) p.lengths = dice.label<Lengths>(lengths_count);
  p.q_layout = dice.label<Layout>(layout_count);
  p.k_layout = dice.label<Layout>(layout_count);
  p.v_layout = dice.label<Layout>(layout_count);
  p.out_layout = dice.label<Layout>(7);
  p.lse = dice.label<LseOutput>(3);
  p.threads = dice.in(0, 3);
  constexpr Values moderate[] = {Values::constant, Values::integers, Values::uniform, Values::normal,
                                 Values::negative, Values::rising,   Values::falling, Values::peaked,
                                 Values::flat,     Values::outlier,  Values::offset,  Values::duplicated};
  p.values = moderate[dice.in(0, std::ssize(moderate) - 1)];
  p.seed = seed;
  return p;
}

namespace {
bool same_bytes(const Tensor& a, const Tensor& b) {
  const MemoryParts here = a.parts(), there = b.parts();
  for (std::size_t n = 0; n < here.count; ++n)
    if (!std::ranges::equal(here.part(n), there.part(n))) return false;
  return true;
}
}  // namespace

Result run(const KernelEntry& kernel, const Problem& problem, const Contract& contract) {
  const Inputs inputs = materialise(problem), before = inputs.clone();
  const Tensor out = make_out(problem), lse = make_lse(problem);
  kernel.run(inputs.call(out, lse), contract);
  Result result;
  for (Index b = 0; b < problem.b; ++b)
    for (Index h = 0; h < problem.hq; ++h)
      for (Index i = 0; i < problem.lq; ++i) {
        for (Index c = 0; c < problem.dv; ++c) {
          result.out.push_back(out.at(b, h, i, c));
          result.intact &= !out.is_poison(b, h, i, c);
        }
        if (!lse.present()) continue;
        result.lse.push_back(lse.at(b, h, i));
        result.intact &= !lse.is_poison(b, h, i);
      }
  result.intact &= out.damage() == Tensor::Damage::none && (!lse.present() || lse.damage() == Tensor::Damage::none);
  for (const auto tensor : {&Inputs::q, &Inputs::k, &Inputs::v, &Inputs::bias, &Inputs::keep, &Inputs::kv_lengths})
    result.intact &= same_bytes(inputs.*tensor, before.*tensor);
  return result;
}

Result run(const KernelEntry& kernel, const Problem& problem, const Policy& policy) {
  return run(kernel, problem, kernel.contract(policy));
}

Result naive(const Problem& problem, const Contract& contract) {
  const Inputs inputs = materialise(problem);
  const Problem& p = problem;
  Result result;
  std::vector<double> s(static_cast<std::size_t>(p.lk));
  for (Index b = 0; b < p.b; ++b)
    for (Index h = 0; h < p.hq; ++h)
      for (Index i = 0; i < p.lq; ++i) {
        const Row row{inputs, p, b, h, i};
        double largest = -infinity, sum = 0;
        for (std::size_t j = 0; j < s.size(); ++j)
          largest = std::max(largest, s[j] = row.score(static_cast<Index>(j), contract.softcap_before_bias));
        for (const double x : s) sum += largest == -infinity ? 0 : std::exp(x - largest);
        for (Index c = 0; c < p.dv; ++c) {
          double y = 0;
          if (sum > 0) {
            for (std::size_t j = 0; j < s.size(); ++j)
              if (s[j] > -infinity)
                y += std::exp(s[j] - largest) / sum * inputs.v.at(b, h / p.group(), static_cast<Index>(j), c);
          } else if (contract.empty_row == EmptyRow::nan) {
            y = std::numeric_limits<double>::quiet_NaN();
          } else if (is_mean(contract.empty_row)) {
            const Index values = contract.empty_row == EmptyRow::mean_all ? p.lk : row.length();
            for (Index j = 0; j < values; ++j) y += inputs.v.at(b, h / p.group(), j, c);
            y /= static_cast<double>(values);
          }
          result.out.push_back(y);
        }
        const double lse = largest + std::log(sum);
        if (p.lse != LseOutput::none)
          result.lse.push_back(p.lse == LseOutput::f32 ? static_cast<double>(static_cast<float>(lse)) : lse);
      }
  return result;
}

double distance(const std::vector<double>& x, const std::vector<double>& y) {
  if (x.size() != y.size()) return infinity;
  double largest = 0;
  for (std::size_t e = 0; e < x.size(); ++e) {
    if (x[e] == y[e] || (std::isnan(x[e]) && std::isnan(y[e]))) continue;
    const double difference = std::fabs(x[e] - y[e]) / (1 + std::fabs(y[e]));
    largest = std::max(largest, std::isfinite(difference) ? difference : infinity);
  }
  return largest;
}

bool same(const Result& x, const Result& y) {
  return x.intact == y.intact && distance(x.out, y.out) == 0 && distance(x.lse, y.lse) == 0;
}

const KernelEntry& builtin(std::string_view name) {
  const KernelEntry* found = find_kernel(builtin_kernels(), name);
  if (!found) throw std::invalid_argument("no builtin " + std::string(name));
  return *found;
}

const KernelEntry& fault(std::string_view name) {
  const KernelEntry* found = find_kernel(fault_kernels(), name);
  if (!found) throw std::invalid_argument("no fault " + std::string(name));
  return *found;
}

}  // namespace attest::kernels::test

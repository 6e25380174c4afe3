// The numbers of a model's inputs, by the way in which the problem says that each is made.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "core/digest.hpp"
#include "core/rng.hpp"
#include "graph/constraints.hpp"
#include "graph/problem.hpp"

namespace attest::graph {
namespace {

struct Element {
  std::uint64_t key;         // hash of its coordinates
  std::uint64_t row_key;     // hash of all but the last of them
  Index at = 0, length = 1;  // along the last axis
};

double float_value(Regime regime, Format format, const Element& e, std::uint64_t of_all) {
  const bool half = has_short_range(format);
  const double x = normal(e.key);
  switch (regime) {
    case Regime::uniform:
      return (symmetric_uniform(mix(e.key)) + 1) / 2;
    case Regime::offset_10:
      return x + 10;
    case Regime::offset_100:
      return x + 100;
    case Regime::far:
      return x + (half ? 500 : 1e4);
    case Regime::wide:
      return std::ldexp(x, static_cast<int>(below(mix(e.key), half ? 20 : 24)) - 12);
    case Regime::large:
      return x * (half ? 30 : 100);
    case Regime::tiny:
      return x * (half ? 1e-3 : 1e-20);
    case Regime::integers:
      return static_cast<double>(below(e.key, 9)) - 4;
    case Regime::constant:
      return normal(of_all);
    case Regime::sparse:
      return below(mix(e.key), 5) == 0 ? x : 0;
    default:
      return x;
  }
}

bool kept(Regime regime, const Element& e) {
  const auto share = [&e](std::uint64_t tenths) {
    const bool first = e.at == 0 && below(mix(e.row_key), 5) > 0;
    return first || below(e.key, 10) < tenths;
  };
  switch (regime) {
    case Regime::most:
      return share(9);
    case Regime::half:
      return share(5);
    case Regime::few:
      return share(1);
    case Regime::prefix:
      return e.at < 1 + static_cast<Index>(below(mix(e.row_key), static_cast<std::uint64_t>(e.length)));
    default:
      return true;
  }
}

void set_float(Array& x, std::size_t i, Regime regime, const Element& e, std::uint64_t of_all) {
  const Format format = format_of(x.type);
  if (regime == Regime::mask_1e4 || regime == Regime::mask_lowest) {
    const double out = regime == Regime::mask_1e4 ? -1e4 : -largest_finite(format);
    // The share of kept keys differs between masks.
    constexpr Regime shares[] = {Regime::most, Regime::half, Regime::few};
    x.floats[i] = kept(shares[below(of_all, 3)], e) ? 0 : round_to(format, out);
    return;
  }
  x.floats[i] = round_to(format, float_value(regime, format, e, of_all));
}

std::int64_t integer_value(Regime regime, const Element& e, std::uint64_t of_all, std::uint64_t count, Index longest) {
  switch (regime) {
    case Regime::any:
      return static_cast<std::int64_t>(below(e.key, count));
    case Regime::same:
      return static_cast<std::int64_t>(below(of_all, count));
    case Regime::ends:
      return (e.key & 1) != 0 ? static_cast<std::int64_t>(count - 1) : 0;
    case Regime::longest:
      return longest;
    case Regime::long_or_short:
      return below(e.key, 3) == 0 ? longest
                                  : 1 + static_cast<Index>(below(mix(e.key), static_cast<std::uint64_t>(longest)));
    default:
      return kept(regime, e) ? 1 : 0;
  }
}

// A number of Role::numbers: a small one of either sign, one for all, or one of all of 8 bits (16 in a wider type).
std::int64_t plain_integer(Regime regime, Type type, const Element& e, std::uint64_t of_all, bool divisor) {
  const auto [least, most] = range_of(type);
  const std::int64_t width = regime != Regime::wide ? 9 : most < 256 ? 256 : 1 << 16;
  const std::int64_t first = std::max<std::int64_t>(least, regime == Regime::wide ? -(1 << 15) : -4);
  const std::uint64_t key = regime == Regime::constant ? of_all : e.key;
  const std::int64_t value = first + static_cast<std::int64_t>(below(key, static_cast<std::uint64_t>(width)));
  return divisor && value == 0 ? 1 : value;
}

// f(number, element) for each element of a tensor.
template <class F>
void each_element(std::span<const Index> shape, std::uint64_t key, F f) {
  std::vector<Index> at(shape.size(), 0);
  Index count = 1;
  for (const Index length : shape) count *= length;
  for (Index i = 0; i < count; ++i) {
    Element e{key, key, 0, 1};
    for (std::size_t k = 0; k < shape.size(); ++k) {
      e.row_key = e.key;
      e.key = extend(e.key, static_cast<std::uint64_t>(at[k]));
    }
    if (!shape.empty()) {
      e.at = at.back();
      e.length = shape.back();
    }
    f(static_cast<std::size_t>(i), e);
    for (std::size_t k = shape.size(); k-- > 0;) {
      if (++at[k] < shape[k]) break;
      at[k] = 0;
    }
  }
}

}  // namespace

// Returns `x`, of zeros, filled from the owner's input number `input` of the problem.
Array Family::given(std::size_t input, const Problem& problem, Array x) const {
  const Input& of = program_.model().inputs[input];
  const Array& own = (*constraints_->given)[static_cast<std::size_t>(problem.given)].at(of.name);
  const Regime regime = problem.values.at(of.name);
  const std::uint64_t key = extend(mix(problem.seed), input);
  const bool floats = is_floating(x.type), adds = floats && uses_[input].role == Role::floats;
  // The places in `own` that elements of `x` come from, by axis.
  std::vector<std::vector<Index>> from;
  const bool open = std::ranges::any_of(of.shape, [](const Dimension& d) { return !d.length.has_value(); });
  bool moved = false;
  for (std::size_t k = 0; k < x.shape.size(); ++k) {
    std::vector<Index> order(static_cast<std::size_t>(own.shape[k]));
    std::iota(order.begin(), order.end(), Index{0});
    if (regime == Regime::given_permuted && (open ? !of.shape[k].length : !moved && order.size() > 1)) {
      moved = true;
      const std::uint64_t along = extend(mix(problem.seed), digest_of(open ? open_name(of, k) : of.name));
      std::ranges::sort(order, {}, [along](Index i) { return extend(along, static_cast<std::uint64_t>(i)); });
    }
    for (Index i = own.shape[k]; i < x.shape[k]; ++i)
      order.push_back(order[static_cast<std::size_t>(i - own.shape[k])]);
    from.push_back(std::move(order));
  }
  double magnitude = 0;  // the mean of finite numbers
  if (adds) {
    const auto finite = [](double value) { return std::isfinite(value); };
    const auto count = static_cast<double>(std::ranges::count_if(own.floats, finite));
    for (const double value : own.floats)
      if (finite(value)) magnitude += std::fabs(value) / count;
  }
  const bool noisy = regime >= Regime::given_noise_1e_3;
  const double level = regime == Regime::given_noise_1e_3 ? 1e-3 : regime == Regime::given_noise_1e_1 ? 0.1 : 1;
  const std::uint64_t of_64 = regime == Regime::given_noise_1e_3 ? 1 : regime == Regime::given_noise_1e_1 ? 8 : 32;
  const Format format = floats ? format_of(x.type) : Format::f64;
  std::size_t axes = x.shape.size();
  std::vector<Index> at(axes, 0);
  each_element(x.shape, key, [&](std::size_t i, const Element& e) {
    Index flat = 0;
    for (std::size_t k = 0; k < axes; ++k) flat = flat * own.shape[k] + from[k][static_cast<std::size_t>(at[k])];
    for (std::size_t k = axes; k-- > 0;) {
      if (++at[k] < x.shape[k]) break;
      at[k] = 0;
    }
    if (noisy && !adds && below(mix(e.key), 64) < of_64)
      flat = static_cast<Index>(below(e.key, static_cast<std::uint64_t>(own.size())));
    const auto source = static_cast<std::size_t>(flat);
    if (!floats) {
      x.integers[i] = own.integers[source];
      return;
    }
    x.floats[i] = own.floats[source];
    if (noisy && adds && std::isfinite(x.floats[i])) {
      const double largest = largest_finite(format);
      x.floats[i] = round_to(format, std::clamp(x.floats[i] + level * magnitude * normal(e.key), -largest, largest));
    }
  });
  return x;
}

Feeds Family::feeds(const Problem& problem) const {
  check(problem);
  Index longest = 1;
  for (const auto& [axis, size] : problem.sizes) longest = std::max(longest, size);
  Feeds feeds;
  const auto& inputs = program_.model().inputs;
  for (std::size_t n = 0; n < inputs.size(); ++n) {
    const Input& input = inputs[n];
    const auto lengths = shape(input, problem);
    elements(lengths, most_elements, fmt::format("input '{}'", input.name));
    Array x = zeros(input.type, lengths);
    const Regime regime = problem.values.at(input.name);
    if (is_given(regime)) {
      feeds.emplace(input.name, given(n, problem, std::move(x)));
      continue;
    }
    const std::uint64_t key = extend(mix(problem.seed), n), of_all = extend(key, ~std::uint64_t{0});
    const auto count = static_cast<std::uint64_t>(uses_[n].count);
    each_element(lengths, key, [&](std::size_t i, const Element& e) {
      if (is_floating(x.type))
        set_float(x, i, regime, e, of_all);
      else if (uses_[n].role == Role::numbers)
        x.integers[i] = plain_integer(regime, x.type, e, of_all, uses_[n].divisor);
      else
        x.integers[i] = integer_value(regime, e, of_all, count, longest);
    });
    feeds.emplace(input.name, std::move(x));
  }
  return feeds;
}

}  // namespace attest::graph

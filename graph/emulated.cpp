#include "graph/emulated.hpp"

#include <algorithm>
#include <cmath>

#include "core/rng.hpp"

namespace attest::graph {
namespace {

class Emulated final : public Arithmetic {
 public:
  explicit Emulated(const Careless& how) : how_(how) {}

  void round(std::span<double> x, Format format, Place /*place*/) const override {
    for (double& v : x) v = stored(v, format);
  }

  void function(std::span<double> x, Format format, double relative, double /*absolute*/, Place place) const override {
    if (!(relative > 1)) return;
    const std::uint64_t key = extend(0x756c7073, place);
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] *= 1 + 2 * how_.ulps * unit_roundoff(format) * symmetric_uniform(extend(key, i));
  }

  void sum(std::span<double> sums, const Sums& how, Place /*place*/) const override {
    if (how.terms == 0) return;
    std::vector<double> terms(static_cast<std::size_t>(how.terms));
    for (std::size_t i = 0; i < sums.size(); ++i) {
      how.terms_of(static_cast<Index>(i), terms);
      if (how_.backwards) std::reverse(terms.begin(), terms.end());
      sums[i] = summed_up(terms, how.accumulator);
    }
  }

  void convert(std::span<double> x, Format format, Place place) const override { nearest()->convert(x, format, place); }

 private:
  [[nodiscard]] double stored(double x, Format format) const noexcept {
    const double rounded = round_to(format, x);
    const bool vanishes = how_.flushes && !has_short_range(format) && std::fabs(rounded) < smallest_normal(format);
    return vanishes ? std::copysign(0.0, rounded) : rounded;
  }

  [[nodiscard]] double summed_up(std::span<const double> terms, Format format) const {
    std::vector<double> partial(std::min(static_cast<std::size_t>(how_.partial_sums), terms.size()), 0.0);
    for (std::size_t j = 0; j < terms.size(); ++j) {
      double& sum = partial[j % partial.size()];
      sum = round_to(format, sum + (how_.fused ? terms[j] : round_to(format, terms[j])));
    }
    while (partial.size() > 1) {
      std::vector<double> pairs;
      for (std::size_t j = 0; j < partial.size(); j += 2)
        pairs.push_back(j + 1 < partial.size() ? round_to(format, partial[j] + partial[j + 1]) : partial[j]);
      partial = std::move(pairs);
    }
    return partial.front();
  }

  Careless how_;
};

}  // namespace

std::unique_ptr<Arithmetic> careless(const Careless& how) { return std::make_unique<Emulated>(how); }

std::vector<Array> results_by(const Program& program, const Feeds& feeds, const Arithmetic& arithmetic,
                              const Precision& precision) {
  const auto reference = exact();
  const Arithmetic* const lanes[] = {reference.get(), &arithmetic};
  auto outputs = program.run(feeds, lanes, precision);
  for (Array& out : outputs) {
    for (double& v : out.floats) v = round_to(precision.result(format_of(out.type)), v);
    if (out.lanes == 1) continue;
    const auto size = static_cast<std::ptrdiff_t>(out.size());
    if (is_floating(out.type))
      out.floats.erase(out.floats.begin(), out.floats.begin() + size);
    else
      out.integers.erase(out.integers.begin(), out.integers.begin() + size);
    out.lanes = 1;
  }
  return outputs;
}

}  // namespace attest::graph

#include <cmath>
#include <memory>
#include <utility>

#include "core/layer_norm/inputs.hpp"
#include "ops/layer_norm/probe/parts.hpp"

namespace attest::ops::of_layer_norm {
namespace {

using attest::layer_norm::Variance;

struct Moments {
  double mean = 0, variance = 0;
};

class Statistics {
 public:
  Statistics(Format format, std::size_t lanes) : format_(format), lanes_(lanes) {}

  [[nodiscard]] double in(double x) const { return round_to(format_, x); }
  [[nodiscard]] double mean_of(const Row& terms) const {
    Row partial(lanes_, 0);
    for (std::size_t i = 0; i < terms.size(); ++i) partial[i % lanes_] = in(partial[i % lanes_] + terms[i]);
    for (std::size_t half = lanes_ / 2; half > 0; half /= 2)
      for (std::size_t lane = 0; lane < half; ++lane) partial[lane] = in(partial[lane] + partial[lane + half]);
    return in(partial[0] / in(static_cast<double>(terms.size())));
  }
  [[nodiscard]] double mean_square(const Row& x, double about) const {
    Row squares;
    for (const double each : x) {
      const double d = in(each - about);
      squares.push_back(in(d * d));
    }
    return mean_of(squares);
  }
  [[nodiscard]] Moments of(const Row& x, bool rms, Variance how) const {
    if (rms) return {0, mean_square(x, 0)};
    if (how == Variance::one_pass || how == Variance::shifted) {
      const double pivot = how == Variance::shifted ? x[0] : 0;
      Row z;
      for (const double each : x) z.push_back(in(each - pivot));
      const double mean = mean_of(z);
      return {in(mean + pivot), std::max(0.0, in(mean_square(z, 0) - in(mean * mean)))};
    }
    if (how == Variance::welford) {
      Moments m;
      double squares = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double before = in(x[i] - m.mean);
        m.mean = in(m.mean + in(before / in(static_cast<double>(i + 1))));
        squares = in(squares + in(before * in(x[i] - m.mean)));
      }
      return {m.mean, in(squares / in(static_cast<double>(x.size())))};
    }
    const double mean = mean_of(x);
    return {mean, mean_square(x, mean)};
  }

 private:
  Format format_;
  std::size_t lanes_;
};

}  // namespace

// Computes the first row.
probing::Elements PlainLayerNorm::run(const ops::Problem& problem, const ops::Policy& policy,
                                      std::size_t scheme) const {
  const Problem& p = problem.as<Problem>();
  const Policy& formats = policy.as<Policy>();
  const auto in = [&](Stage stage, double x) { return round_to(formats[stage], x); };
  const attest::layer_norm::Inputs inputs = materialise(p);
  const Statistics statistics(formats[Stage::statistics], scheme == 0 ? 1 : 8);
  Row x, seen;
  auto sums = std::make_shared<Row>(), y = std::make_shared<Row>();
  for (Index i = 0; i < p.hidden; ++i) {
    double each = inputs.x.at(0, i);
    if (inputs.residual.present()) each = round_to(p.dtype, in(Stage::sum, each + inputs.residual.at(0, i)));
    x.push_back(each);
    seen.push_back(statistics.in(each));
  }
  const auto [mean, variance] = statistics.of(seen, p.norm == Norm::rms, how_.variance);
  const double epsilon = statistics.in(p.epsilon);
  const double scale =
      in(Stage::normalise, statistics.in(1 / statistics.in(std::sqrt(statistics.in(variance + epsilon)))));
  for (Index i = 0; i < p.hidden; ++i) {
    const double gamma = inputs.gamma.present() ? in(Stage::affine, inputs.gamma.at(i)) : 1;
    const double beta = inputs.beta.present() ? in(Stage::affine, inputs.beta.at(i)) : 0;
    const double d =
        in(Stage::normalise, in(Stage::normalise, x[static_cast<std::size_t>(i)]) - in(Stage::normalise, mean));
    const double t = in(Stage::affine, in(Stage::normalise, d * scale));
    y->push_back(round_to(p.dtype, in(Stage::output, in(Stage::affine, in(Stage::affine, t * gamma) + beta))));
  }
  *sums = std::move(x);
  return [sums, y](std::string_view output, const probing::Place& index) {
    return (output == "sum_out" ? *sums : *y)[static_cast<std::size_t>(index[1])];
  };
}

}  // namespace attest::ops::of_layer_norm

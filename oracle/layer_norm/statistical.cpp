// The statistical tier of LayerNorm: section 10 of docs/layer-norm.md.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "oracle/last_bit.hpp"
#include "oracle/layer_norm/alike.hpp"
#include "oracle/layer_norm/calibration.hpp"
#include "oracle/layer_norm/oracle.hpp"
#include "oracle/layer_norm/spread.hpp"
#include "oracle/least.hpp"
#include "oracle/series.hpp"

namespace attest::oracle::layer_norm {
namespace {

constexpr double margin = 1.05;     // room in lambda s for what the terms leave out
constexpr Index least_columns = 8;  // of a row that is fitted
constexpr double least_gaps = 8;
// Of the variance of what elements round off by themselves, which is known and no bound: a row may lie beyond it by chance, and classes
// of problems whose other errors are calibrated know little of rows where it is most of all.
constexpr double chance = 6;

// The fit of residuals (out - y) / gamma by a + b t, each weighed by what an element's own roundings leave it to say.
struct Fit {
  double w = 0, t = 0, tt = 0, r = 0, rt = 0;
  double row = 0, mean = 0, scale = 0;  // of elements' Spread
  Index columns = 0;
  void add(double weight, double at, double residual, const Spread& of) {
    row += weight * of.row;
    mean += weight * of.mean;
    scale += weight * of.scale;
    w += weight;
    t += weight * at;
    tt += weight * at * at;
    r += weight * residual;
    rt += weight * at * residual;
    ++columns;
  }
};

double gap_of(Format format, double y) {
  return std::max(2 * half_smallest_subnormal(format), 2 * unit_roundoff(format) * power_of_normal(std::fabs(y)));
}

// Where results lie between two numbers of their format. On a grid no finer than its gaps they lie alike, wherever what all share moves
// them: a row of such says nothing of the noise.
class Places {
 public:
  // y, in gaps of the format there; before and behind a quarter of one, since what lies alike about a number's middle has no mean.
  void add(double gaps) {
    for (const std::size_t k : {0U, 1U}) {
      const double at = gaps + 0.25 * static_cast<double>(k);
      sums_[k] += at - std::floor(at) - 0.5;
    }
    ++count_;
  }
  [[nodiscard]] bool alike() const {
    constexpr double sure = 4 * 4 / 12.0;  // four standard deviations of independent ones, squared
    return square(sums_[0]) > sure * count_ || square(sums_[1]) > sure * count_;
  }

 private:
  std::array<double, 2> sums_{};
  double count_ = 0;
};

// Whether many elements hold the largest number, as where it is that of the format: their errors are one.
bool saturates(const SourceRow& source, Index n) {
  Index most = 0;
  for (Index i = 0; i < n; ++i) most += std::fabs(source.x[static_cast<std::size_t>(i)]) == source.sums.largest;
  return most > std::max<Index>(2, n / 16);
}

}  // namespace

std::string_view statistical_refusal(const Contract& contract) {
  if (contract.arithmetic.kappa != 1) return "additions that truncate err to one side";
  if (contract.arithmetic.order_by_values)
    return "the order of sums looks at values (order), so that errors may point one way";
  if (contract.policy[Stage::statistics] == Format::f64)
    return "conforming chains of f64 additions were seen to need several times what independent roundings do";
  if (contract.arithmetic.flushes()) return "flush-to-zero errs to one side";
  return {};
}

const RowSpread& LayerNormOracle::spread() {
  if (!spread_) spread_ = std::make_unique<RowSpread>(numbers_, contract_, source_, statistics(), inputs_.epsilon);
  return *spread_;
}

bool LayerNormOracle::has_spread(Index row) {
  if (entered_ == row && spread_) return spread_->applies;
  if (!statistical_refusal(contract_).empty() || !params_.finite()) return false;
  enter(row);
  return source_.finite && spread().applies;
}

Wide LayerNormOracle::reference(const Element& e) const {
  const Wide gamma = e.has_gamma ? numbers_.gamma_offset + static_cast<Wide>(e.gamma) : 1;
  return e.d * spread_->root * gamma + e.beta;
}

// What the tier makes of an element, whatever lambda is.
struct LayerNormOracle::Usual {
  Enclosure rigorous;
  double y, s, bias;

  [[nodiscard]] StatisticalEnclosure at(double lambda) const {
    // Of f64, y is no closer than half an ulp.
    const double reach = margin * lambda * s + bias + std::fabs(y) * 0x1p-52;
    StatisticalEnclosure enclosure;
    enclosure.applies = true;
    enclosure.s = s;
    enclosure.bias = bias;
    enclosure.lo = std::max(rigorous.lo, y - reach);
    enclosure.hi = std::min(rigorous.hi, y + reach);
    return enclosure;
  }
};

std::optional<LayerNormOracle::Usual> LayerNormOracle::usual(Index row, Index column) {
  if (!has_spread(row)) return std::nullopt;
  const Interval rigorous = interval(row, column);
  const Enclosure& e = rigorous.enclosure;
  if (e.undetermined || e.expect != Expect::number || rigorous.beta_ok) return std::nullopt;
  const Element element_of = element(column, statistics_->d[static_cast<std::size_t>(column)]);
  const auto y = static_cast<double>(reference(element_of));
  const Spread spread_of = spread().of(element_of, y);
  const double s = spread_of.s();
  if (!(s > Spread::least_spread)) return std::nullopt;
  return Usual{e, y, s, spread_of.bias};
}

StatisticalEnclosure LayerNormOracle::statistical_enclosure(Index row, Index column, double lambda) {
  const std::optional<Usual> of_element = usual(row, column);
  return of_element ? of_element->at(lambda) : StatisticalEnclosure{};
}

double LayerNormOracle::lambda_needed(Index row, Index column, double got) {
  const std::optional<Usual> of_element = std::isfinite(got) ? usual(row, column) : std::nullopt;
  if (!of_element) return std::numeric_limits<double>::quiet_NaN();
  return oracle::least_lambda([&](double lambda) {
    const StatisticalEnclosure at = of_element->at(lambda);
    return round_(at.lo) <= got && got <= round_(at.hi);
  });
}

// How many elements of the entered row are as one, on average: equal x, gamma and beta are rounded alike.
double LayerNormOracle::repetition(double params_alike) const {
  const auto n = static_cast<double>(problem_.hidden);
  constexpr double few = 4;
  if (params_alike * n < few) return 1;
  const auto element_of = [&](std::size_t i) {
    return std::array{source_.x[i], params_.gamma.empty() ? 1 : params_.gamma[i],
                      params_.beta.empty() ? 0 : params_.beta[i]};
  };
  return n * alike_of(problem_.hidden, element_of);
}

oracle::Statistics LayerNormOracle::statistics_of(const Tensor& out) {
  oracle::Statistics statistics;
  std::vector<double> got(static_cast<std::size_t>(padded(problem_.hidden)));
  const bool speaks_of_t = has_aggregate(round_.stage) && has_aggregate(round_.tensor);
  for (const Index row : statistical_rows(problem_)) {
    if (!has_spread(row)) continue;
    read(out, row, got);
    const RowSpread& row_of = spread();
    Fit fit;
    Places places;
    for (Index column = 0; column < problem_.hidden; ++column) {
      const double out_here = got[static_cast<std::size_t>(column)];
      if (!std::isfinite(out_here)) continue;
      const Element e = element(column, statistics_->d[static_cast<std::size_t>(column)]);
      const Wide wide = reference(e);
      const auto y = static_cast<double>(wide);
      const Spread spread_of = row_of.of(e, y);
      const double half_ulp =
          std::max(unit_roundoff(round_.stage) * std::fabs(y), half_smallest_subnormal(round_.stage));
      const auto residual = static_cast<double>(out_here - wide);
      const auto is_far = [&](double s) {
        return std::fabs(residual) > oracle::Statistics::near_lambda * s + 0.5 * half_ulp;
      };
      if (statistics.largest_lambda <= oracle::Statistics::stop_lambda && is_far(spread_of.least_s()) &&
          is_far(spread_of.s())) {
        const double lambda = lambda_needed(row, column, out_here);
        if (lambda > std::max(statistics.largest_lambda, oracle::Statistics::near_lambda)) {
          statistics.largest_lambda = lambda;
          statistics.index = {row, column, 0, 0};
        }
      }
      if (!speaks_of_t) continue;
      const double gamma = e.has_gamma ? numbers_.gamma_offset + e.gamma : 1;
      const double noise = square(spread_of.own) + square(half_ulp) / 3;
      // Where t moves out by less than its gaps, what they round off follows t.
      const double t = static_cast<double>(e.d) * row_of.scale;
      if (std::fabs(gamma * t) > least_gaps * half_ulp && noise > square(Spread::least_spread) &&
          std::fabs(gamma) < 1e100 && std::fabs(residual) < 1e100) {
        const double weight = square(gamma) / noise;
        fit.add(weight, t, residual / gamma, spread_of);
        places.add(y / gap_of(round_.stage, y));
      }
    }
    if (!speaks_of_t) continue;
    const double determinant = fit.w * fit.tt - square(fit.t);
    // A row whose t are as good as one number, or whose weights are those of a few elements, says nothing of both.
    if (fit.columns < least_columns || places.alike() || saturates(source_, problem_.hidden) ||
        !(determinant > 1e-6 * fit.w * fit.tt) || !std::isfinite(determinant))
      continue;
    const double a = (fit.tt * fit.r - fit.t * fit.rt) / determinant,
                 b = (fit.w * fit.rt - fit.t * fit.r) / determinant;
    // What may err to one side by all that is permitted is taken off: it is no noise.
    const auto beyond = [](double found, double bias) { return square(std::max(0.0, std::fabs(found) - bias)); };
    // Elements of one gamma and beta share what is made of these, and those of one x, too, all of their errors.
    const double alike = params_.alike(problem_.hidden), noise_room = chance * repetition(alike);
    const double of_a = row_of.of_mean + (fit.row + alike * fit.mean) / fit.w;
    const double of_b = row_of.of_scale + square(row_of.of_mean_squared) + alike * fit.scale / fit.w;
    const double za = numbers_.rms ? 0 : beyond(a, row_of.mean_bias) / (noise_room * fit.tt / determinant + of_a);
    const double zb = beyond(b, row_of.root_bias) / (noise_room * fit.w / determinant + of_b);
    const double both_of = numbers_.rms ? zb : (za + zb) / 2;
    statistics.squares += both_of * static_cast<double>(fit.columns);
    statistics.elements += fit.columns;
  }
  return statistics;
}

}  // namespace attest::oracle::layer_norm

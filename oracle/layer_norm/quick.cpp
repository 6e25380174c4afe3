#include "oracle/layer_norm/quick.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "oracle/layer_norm/oracle.hpp"
#include "oracle/layer_norm/quick_loops.hpp"

namespace attest::oracle::layer_norm {
namespace {

constexpr double little = 0x1p-6;  // what every error must stay below, so that no interval is wide or open
constexpr Index least_row = 8;

std::vector<double> in_lanes(const std::vector<double>& numbers, Index n, double otherwise) {
  std::vector<double> lanes(static_cast<std::size_t>(padded(n)), otherwise);
  std::ranges::copy(numbers, lanes.begin());
  return lanes;
}

// Whether no interval is wide for what a sum with beta is rounded to: that would hold +-sqrt(n) |gamma|.
bool narrow_sums(const Numbers& m, const Params& params) {
  const double hull = std::sqrt(m.n);
  for (std::size_t i = 0; i < static_cast<std::size_t>(m.n); ++i) {
    const double gamma = params.gamma.empty() ? 1 : std::fabs(m.gamma_offset + params.gamma[i]);
    const double beta = params.beta.empty() ? 0 : std::fabs(params.beta[i]);
    if (!std::isfinite(gamma) || !std::isfinite(beta)) return false;
    if (gamma != 0 && !(16 * (m.affine.u * beta + m.affine.eta) <= hull * gamma)) return false;
  }
  return true;
}

// At most sum_error() of section 2, for numbers whose magnitudes add up to `total`: the k largest are at least k/n of it.
double least_sum_error(double total, double n, double additions, double u, double exact_below) {
  if (!(total > exact_below)) return 0;
  double comb = 0, above = n;  // numbers k past those of the octaves counted
  double power = std::bit_cast<double>(std::bit_cast<std::uint64_t>(total) & 0x7ff0000000000000);
  for (int octave = 0; octave < 4; ++octave, power /= 2) {
    const double below = n * std::max(power, exact_below) / total + 2;
    if (below >= above) break;
    comb += (above - below) * u * power;
    above = below;
  }
  return std::min(comb, additions * u * total) * slack;
}

}  // namespace

QuickRow::QuickRow(const Numbers& numbers, const Params& params, double epsilon, const Rounding& round)
    : m_(numbers), epsilon_(epsilon), round_(round) {
  const Index n = static_cast<Index>(m_.n);
  const double finest = unit_roundoff(Format::f32);
  speaks_ = n >= least_row && !m_.flush && !m_.count_lost && !m_.clamp && !m_.statistics_lose &&
            !m_.normalise_loses_statistics && m_.storage.format != Format::f64 && m_.statistics.u <= finest &&
            m_.normalise.u <= finest && m_.affine.u <= finest && round_.stage == round_.tensor && m_.root < little &&
            narrow_sums(m_, params);
  if (!speaks_) return;
  gamma_ = in_lanes(params.gamma, n, params.gamma.empty() ? 1 : 0);
  if (m_.gamma_offset != 0 && !params.gamma.empty())
    for (double& gamma : gamma_) gamma += m_.gamma_offset;
  beta_ = in_lanes(params.beta, n, 0);
  for (const double beta : beta_) largest_beta_ = std::max(largest_beta_, std::fabs(beta));
}

// A lower bound of Statistics::dm.
double QuickRow::least_mean_error(std::span<const double> x, double magnitudes, double mean, double variance) const {
  if (m_.rms) return 0;
  if (m_.variance == Variance::shifted) return m_.statistics.u * std::fabs(mean) * slack;
  const double n = m_.n;
  if (m_.variance == Variance::welford)
    return std::min(m_.u * magnitudes * std::min((n - 1) / 2, m_.additions) / n, 2 * std::sqrt(variance)) * slack;
  const double grid = common_grid(x.first(8));  // of all it is no more
  return least_sum_error(magnitudes, n, m_.additions, m_.u, std::ldexp(grid, precision(m_.statistics.format))) / n;
}

bool QuickRow::accept(const SourceRow& row, std::span<const double> got, std::uint8_t* accepted, bool& all) {
  if (!speaks_) return false;
  const double n = m_.n;
  const Index count = static_cast<Index>(n);
  const std::vector<double>& x = row.x;
  const RowSums& sums = row.sums;
  if (!(sums.largest < std::sqrt(m_.statistics.overflow) / (8 * n)) || !(epsilon_ < 1e30)) return false;
  const double square = sums.squares / n, offset = m_.rms ? 0 : sums.sum / n;  // about the pivot
  const double mean = m_.rms ? 0 : x[0] + offset, variance = std::max(0.0, square - offset * offset);
  const double whole = variance + epsilon_;
  if (!(whole > 0x1p-100)) return false;
  const double scale = 1 / std::sqrt(whole), largest = sums.largest * scale;
  const double steps = 4 * m_.additions + 64 + 32 * m_.merge_depth;
  const double off = steps * m_.u * (m_.one_pass_like ? std::max(largest, 4 * largest * largest) : largest);
  if (!(off < little) || !(steps * m_.u < little)) return false;  // there are wide intervals, or open ones

  const double cv = (m_.additions + 3) * m_.u * variance / whole;
  const double dm = std::min(least_mean_error(x, sums.magnitudes, mean, variance), std::sqrt(cv * whole / 2));
  const double relative = cv / 4 + m_.root + 2 * m_.normalise.u;
  constexpr double sure = 0.98;  // more than the second order takes off
  // The reference's own error: of a normalised value, and relative to it.
  const double reference = (n + 32) * 0x1p-52, of_mean = 0x1p-51 * std::fabs(mean) + reference * std::sqrt(square);
  const double relative_error = reference * square / whole + 2 * of_mean * scale + 0x1p-50;
  AcceptRowRule rule{};
  rule.mean = mean;
  rule.scale = scale;
  rule.constant = sure * dm * scale * (1 - relative) + m_.normalise.eta * slack - of_mean * scale;
  rule.proportional = sure * relative - relative_error;
  rule.u_affine = sure * m_.affine.u;
  rule.largest_beta_error = 0x1p-50 * largest_beta_;
  rule.u_out = unit_roundoff(round_.tensor);
  rule.eta_out = half_smallest_subnormal(round_.tensor);
  rule.largest_out = largest_finite(round_.tensor);
  all = accept_row(rule, x.data(), gamma_.data(), beta_.data(), got.data(), count, accepted);
  return true;
}

}  // namespace attest::oracle::layer_norm

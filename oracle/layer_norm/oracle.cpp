#include "oracle/layer_norm/oracle.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "oracle/decode.hpp"
#include "oracle/layer_norm/lent.hpp"
#include "oracle/layer_norm/quick_loops.hpp"

namespace attest::oracle::layer_norm {
namespace {

using attest::layer_norm::SumOf;

// Row `row` of a matrix, in whole lanes.
void read_row(const Tensor& tensor, Index row, std::vector<double>& to) {
  const attest_tensor view = tensor.view();
  const Index columns = view.shape[1];
  if (view.strides[1] == 1 || columns == 1) {
    decode_padded({view.dtype, attest_at(&view, row, 0, 0, 0), 1, columns, columns}, to.data(), std::ssize(to));
    return;
  }
  for (Index i = 0; i < columns; ++i) to[static_cast<std::size_t>(i)] = tensor.at(row, i);
  std::fill(to.begin() + columns, to.end(), 0.0);
}

std::vector<double> numbers_of(const Tensor& tensor) {
  if (!tensor.present()) return {};
  const attest_tensor view = tensor.view();
  std::vector<double> numbers = LentRows::take(static_cast<std::size_t>(padded(view.shape[0])));
  if (view.strides[0] == 1)
    decode_padded({view.dtype, attest_at(&view, 0, 0, 0, 0), 1, view.shape[0], view.shape[0]}, numbers.data(),
                  std::ssize(numbers));
  else
    for (Index i = 0; i < padded(view.shape[0]); ++i)
      numbers[static_cast<std::size_t>(i)] = i < view.shape[0] ? tensor.at(i) : 0;
  return numbers;
}

Format format_of_params(const Inputs& inputs) {
  if (inputs.gamma.present()) return format_of(inputs.gamma.dtype());
  return format_of(inputs.beta.present() ? inputs.beta.dtype() : inputs.x.dtype());
}

// x + residual in the sum format, and what of it may be lost to flushing.
struct SumOfTwo {
  double sum = 0, stored = 0, error = 0;
};

// x + r, rounded once, as RowLoops::add() has it of whole rows.
double rounded_sum(Format format, double x, double r) {
  const double sum = x + r, part = sum - x, rest = (x - (sum - part)) + (r - part);
  const auto bits = std::bit_cast<std::uint64_t>(sum);
  if (format == Format::f64 || rest == 0 || !std::isfinite(sum) || (bits & 1)) return round_to(format, sum);
  return round_to(format, std::bit_cast<double>((rest > 0) == (sum > 0) ? bits + 1 : bits - 1));
}

SumOfTwo sum_of(const Contract& contract, double x, double r) {
  const Format format = contract.policy[Stage::sum], storage = contract.policy[Stage::storage];
  SumOfTwo s;
  s.sum = rounded_sum(format, x, r);
  s.stored = round_to(storage, s.sum);
  if (!contract.arithmetic.flushes()) return s;
  const double tiny = std::max(smallest_normal(format), smallest_normal(storage));
  if (std::fabs(s.sum) < tiny) s.error += std::fabs(s.sum);
  if (contract.arithmetic.flush_to_zero != attest::layer_norm::FlushToZero::inputs) return s;
  const double least = smallest_normal(storage);
  const double lost = (std::fabs(x) < least ? std::fabs(x) : 0) + (std::fabs(r) < least ? std::fabs(r) : 0);
  if (lost > 0)
    s.error += lost + 2.1 * (unit_roundoff(format) + unit_roundoff(storage)) * std::fabs(s.sum) +
               2 * (half_smallest_subnormal(format) + half_smallest_subnormal(storage));
  return s;
}

}  // namespace

Params::Params(const Inputs& inputs)
    : gamma(numbers_of(inputs.gamma)), beta(numbers_of(inputs.beta)), format(format_of_params(inputs)) {}

Params::~Params() {
  LentRows::give(gamma);
  LentRows::give(beta);
}

bool Params::finite() const {
  const auto is_finite = [](double x) { return std::isfinite(x); };
  if (!finite_) finite_ = std::ranges::all_of(gamma, is_finite) && std::ranges::all_of(beta, is_finite);
  return *finite_;
}

bool Params::none_vanish(int gamma_offset) const {
  if (!none_vanish_)
    none_vanish_ = finite() && std::ranges::none_of(gamma, [&](double g) { return g + gamma_offset == 0; });
  return *none_vanish_;
}

Evidence sum_evidence(const std::array<std::int64_t, 4>& index, double got, double expected) {
  Evidence evidence;
  evidence.tensor = "sum_out";
  evidence.index = index;
  evidence.got = got;
  evidence.expected = evidence.lo = evidence.hi = expected;
  evidence.ratio = infinity;
  evidence.wrong = std::isnan(got) ? Wrong::nan : std::isinf(got) ? Wrong::infinity : Wrong::finite;
  evidence.note = "x + residual, rounded to storage, is exact";
  return evidence;
}

LayerNormOracle::LayerNormOracle(const Contract& contract, const Problem& problem, const Inputs& inputs)
    : contract_(contract),
      problem_(problem),
      inputs_(inputs),
      params_(inputs),
      lent_numbers_(contract, params_.format, problem.hidden, inputs.epsilon,
                    inputs.norm == attest::layer_norm::Norm::rms, inputs.residual.present()),
      numbers_(*lent_numbers_),
      round_{contract.policy[Stage::output], format_of(inputs.x.dtype()), contract.arithmetic.flushes()} {
  const auto whole = static_cast<std::size_t>(padded(problem.hidden));
  source_.x = LentRows::take(whole);
  if (!inputs.residual.present()) return;
  added_ = LentRows::take(whole);
  stored_ = LentRows::take(whole);
}

LayerNormOracle::~LayerNormOracle() {
  for (auto* row : {&source_.x, &added_, &stored_}) LentRows::give(*row);
}

void LayerNormOracle::enter(Index row) {
  if (entered_ == row) return;
  entered_ = row;
  statistics_.reset();
  const auto n = static_cast<std::size_t>(problem_.hidden);
  source_.error.clear();
  read_row(inputs_.x, row, source_.x);
  const bool residual = inputs_.residual.present(), rounded = contract_.arithmetic.sum_of == SumOf::rounded;
  const auto put_error = [&](std::size_t i, double error) {
    if (error == 0) return;
    source_.error.resize(n, 0.0);
    source_.error[i] = error;
  };
  if (residual && !numbers_.flush) {
    read_row(inputs_.residual, row, added_);
    add_rows({contract_.policy[Stage::sum], contract_.policy[Stage::storage]}, source_.x.data(), added_.data(),
             problem_.hidden, source_.x.data(), stored_.data());
    if (rounded) std::ranges::copy(stored_, source_.x.begin());
  } else if (residual) {
    read_row(inputs_.residual, row, added_);
    for (std::size_t i = 0; i < n; ++i) {
      const SumOfTwo s = sum_of(contract_, source_.x[i], added_[i]);
      stored_[i] = s.stored;
      source_.x[i] = rounded ? s.stored : s.sum;
      put_error(i, s.error);
    }
  } else if (numbers_.flush_inputs) {
    for (std::size_t i = 0; i < n; ++i)
      if (std::fabs(source_.x[i]) < smallest_normal(numbers_.storage.format)) put_error(i, std::fabs(source_.x[i]));
  }
  if (round_.tensor == Format::f64 && !numbers_.rms) {
    source_.precise = precise_sums(source_.x.data(), problem_.hidden);
    source_.sums = {source_.precise.magnitudes, source_.precise.largest, 0, 0};
  } else {
    source_.sums = row_sums(source_.x.data(), problem_.hidden, numbers_.rms ? 0 : source_.x[0]);
  }
  source_.finite =
      std::isfinite(source_.sums.magnitudes) ||
      std::all_of(source_.x.begin(), source_.x.begin() + problem_.hidden, [](double x) { return std::isfinite(x); });
  source_.has_nan = !source_.finite && std::any_of(source_.x.begin(), source_.x.begin() + problem_.hidden,
                                                   [](double x) { return std::isnan(x); });
}

Element LayerNormOracle::element(Index column, Wide d) const {
  const auto i = static_cast<std::size_t>(column);
  Element e{};
  e.x = source_.x[i];
  e.error = source_.error.empty() ? 0 : source_.error[i];
  e.d = d;
  e.has_gamma = !params_.gamma.empty();
  e.has_beta = !params_.beta.empty();
  e.gamma = e.has_gamma ? params_.gamma[i] : 1;
  e.beta = e.has_beta ? params_.beta[i] : 0;
  return e;
}

Interval LayerNormOracle::interval(Index row, Index column) {
  enter(row);
  const auto i = static_cast<std::size_t>(column);
  const double gamma = params_.gamma.empty() ? 1 : params_.gamma[i], beta = params_.beta.empty() ? 0 : params_.beta[i];
  Interval open;
  open.enclosure.undetermined = open.enclosure.nonfinite_ok = true;
  open.enclosure.y = std::numeric_limits<double>::quiet_NaN();
  if (!source_.finite || !std::isfinite(gamma) || !std::isfinite(beta)) {
    if (contract_.nan == NanRule::propagates && (source_.has_nan || std::isnan(gamma) || std::isnan(beta)))
      open.enclosure.expect = Expect::nan;
    return open;
  }
  if (statistics().undetermined) return open;
  return interval_of(numbers_, statistics(), element(column, statistics().d[i]));
}

Wide LayerNormOracle::least_scale_of(Index row, Index column, bool products) {
  enter(row);
  if (!source_.finite || statistics().undetermined) return 0;
  return least_scale(numbers_, statistics(), element(column, statistics().d[static_cast<std::size_t>(column)]),
                     products);
}

const Statistics& LayerNormOracle::statistics() {
  if (!statistics_) statistics_ = std::make_unique<Statistics>(numbers_, source_);
  return *statistics_;
}

Outcome LayerNormOracle::outcome(const Interval& interval, double got) const {
  if (interval.is_beta(got, round_)) return Outcome::undetermined;
  return judge_element(interval.enclosure, round_, got);
}

std::vector<double> LayerNormOracle::sums(Index row, Index column) const {
  const double x = inputs_.x.at(row, column), r = inputs_.residual.at(row, column);
  std::vector<double> permitted{sum_of(contract_, x, r).stored};
  if (!numbers_.flush) return permitted;
  const double least = smallest_normal(numbers_.storage.format);
  if (numbers_.flush_inputs)
    for (const bool first : {true, false})
      for (const bool second : {true, false})
        permitted.push_back(
            sum_of(contract_, first && std::fabs(x) < least ? 0 : x, second && std::fabs(r) < least ? 0 : r).stored);
  const double tiny = std::max(least, smallest_normal(contract_.policy[Stage::sum]));
  if (std::ranges::any_of(permitted, [&](double s) { return std::fabs(s) < tiny; })) permitted.push_back(0);
  return permitted;
}

bool LayerNormOracle::judge_sum(Index row, Index column, double got, Verdict& verdict) const {
  const std::vector<double> permitted = sums(row, column);
  ++verdict.counts.judged;
  if (std::ranges::any_of(permitted, [&](double s) { return s == got || (std::isnan(s) && std::isnan(got)); }))
    return true;
  verdict = Verdict::fail(sum_evidence({row, column, 0, 0}, got, permitted.front()), verdict.counts);
  return false;
}

void LayerNormOracle::read(const Tensor& out, Index row, std::vector<double>& to) { read_row(out, row, to); }

}  // namespace attest::oracle::layer_norm

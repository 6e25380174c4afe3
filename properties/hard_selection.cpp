// hard-selection: when one attended key wins by more than 128 nats, out = v of that key, exactly.
//
// The law builds values of its own into the problem's shape, masks, layouts and options. Rows of q and k have one
// entry, 2^a and plus or minus 2^b, all else 0, so that a row's score is S at its winner and at most 0 elsewhere, S =
// |sigma| 2^(a+b) >= 256 (1024 where softmax is f64); v has 7 significant bits, 1 <= |v| < 2. Then p = exp(0) = 1 at
// the winner and 0, or a flushed remnant that rounds away, elsewhere, whatever the tiles, splits and rescalings.
//
// Preconditions, row by row on the stored numbers:
// - the winner leads by more than 128 nats (800 for f64) + lazy + the rounding of scores;
// - raw scores are finite in every format, sums of n weights and of n values too;
// - n remnants, as an exp that may be off by exp_ulp subnormal ulps leaves them, are below half an ulp of the sum of
//   weights, and of the sum of values or of the output; where accumulators may truncate, below their losses in the
//   output.
// With the exp2 trick s log2e - m log2e vanishes surely only if s is a power of two: then |sigma| must be a power of
// four (sqrt folding), the winner without bias, and no softcap; a scale that is none is replaced where the subject
// takes one. Not with weights exp2((z - lse) log2e), whose lse is rounded by itself, nor with a division off by more
// than half an ulp. Needs no claim of the subject.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "properties/compare.hpp"
#include "properties/masks.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/transform.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

bool is_power_of_four(double x) {
  int exponent = 0;
  return std::frexp(x, &exponent) == 0.5 && exponent % 2 != 0;
}

// The scale to select with: the problem's own if it serves.
struct Scale {
  double value;
  bool replaced;
};
std::optional<Scale> choose_scale(const Problem& p, const Contract& contract, const Supports& supports) {
  const double own = p.effective_scale();
  if (own != 0 && (!contract.arithmetic.exp2 || is_power_of_four(std::fabs(own)))) return Scale{own, false};
  if (supports.scale == Supports::Scale::only_default) return std::nullopt;
  if (own == 0) return Scale{1, true};
  int exponent = 0;
  std::frexp(std::fabs(own), &exponent);  // |own| = f 2^exponent, f in [1/2, 1)
  const double near = std::ldexp(1.0, 2 * static_cast<int>(std::floor((exponent - 1) / 2.0)));
  return Scale{std::copysign(near, own), true};
}

Reason hard_selection_not_applicable(const Problem& p, const Contract& contract, const SubjectInfo& info) {
  if (p.b * p.hq * p.lq * p.dv * p.lk * p.d == 0) return "no output elements or no keys";
  if (p.multiply_adds() / (p.d + p.dv) > most_scores) return "too many scores to place a winner in each row";
  if (p.k_layout == Layout::broadcast_rows && p.lk > 1) return "all keys share one row";
  if (contract.arithmetic.div_ulp > 0.5) return "a division by 1 may round";
  if (contract.arithmetic.exp2 && contract.arithmetic.normalise_lse) return "weights may carry the rounding of an lse";
  if (contract.arithmetic.exp2 && p.softcap > 0) return "the softcap leaves no power of two";
  const double largest = overflow_threshold(contract.policy[Stage::softcap]);
  if (p.softcap > 0 && !(p.softcap < largest && p.softcap * largest > 2))
    return "the softcap, or its reciprocal, is past the range of its format";
  if (!choose_scale(p, contract, info.supports)) return "the default scale is no power of four";
  return std::nullopt;
}

// Unit roundoff and overflow of all the formats that scores go through.
struct ScoreFormats {
  double u = 0, overflow = infinity, least = 0;
  explicit ScoreFormats(const Policy& policy) {
    for (const Stage stage : {Stage::operand, Stage::scale, Stage::qk, Stage::score, Stage::softcap, Stage::softmax}) {
      u = std::max(u, unit_roundoff(policy[stage]));
      overflow = std::min(overflow, overflow_threshold(policy[stage]));
      least = std::max(least, smallest_normal(policy[stage]));
    }
  }
};

// A problem whose rows select: inputs, and what each judged row must return.
class Selection {
 public:
  Selection(const Trial& trial, Scale scale)
      : contract_(trial.contract()),
        problem_(trial.problem()),
        inputs_(trial.inputs().clone()),
        formats_(contract_.policy),
        masks_(inputs_, contract_),
        rows_(judged_rows(problem_)) {
    if (scale.replaced) {
      problem_.scale = inputs_.scale = scale.value;
      inputs_.scale_is_default = false;
    }
  }

  // False if no powers of two give the scores that are needed.
  bool build() {
    inputs_.q.fill(0);
    inputs_.k.fill(0);
    std::uint64_t bits = draw(problem_, 71);
    for_each_stored(inputs_.v, [&](Index b, Index h, Index j, Index c) {
      bits = mix(bits);
      const double magnitude = static_cast<double>(64 + below(bits, 64)) / 64;
      inputs_.v.set(b, h, j, c, bits & 1 ? -magnitude : magnitude);
    });
    if (!choose_magnitudes()) return false;
    for (const Index row : rows_) place_winner(row);
    return true;
  }

  // The key that row (b, h, i) must return, from what is stored; -1 if none leads by enough.
  [[nodiscard]] Index winner(Index b, Index h, Index i) const {
    const Index kv = h / problem_.group();
    Index column = 0;
    while (column < problem_.d && inputs_.q.at(b, h, i, column) == 0) ++column;
    if (column == problem_.d) return -1;
    const double query = inputs_.q.at(b, h, i, column) * inputs_.scale;
    Index best = -1;
    double best_low = -infinity, second_high = -infinity, best_high = -infinity, largest_score = 0, n = 0;
    for (Index j = 0; j < problem_.lk; ++j) {
      if (masks_.part(b, h, i, j) != Part::attended) continue;
      const double raw = query * inputs_.k.at(b, kv, j, column), bias = masks_.bias(b, h, i, j);
      const double z = finish(raw, bias);
      if (std::isnan(z)) return -1;
      const double error =
          32 * formats_.u * (std::fabs(raw) + (std::isinf(bias) ? 0 : std::fabs(bias))) + tanh_error(z);
      if (z - error > best_low) {
        second_high = std::max(second_high, best_high);
        best_low = z - error;
        best_high = z + error;
        best = j;
      } else {
        second_high = std::max(second_high, z + error);
      }
      if (std::isfinite(z)) largest_score = std::max(largest_score, std::fabs(z));
      n += 1;
    }
    if (best < 0 || !usable(b, h, i, best)) return -1;
    if (!(best_low - second_high > lead() + exp2_shift(largest_score))) return -1;
    return room_for(n, largest_score) ? best : -1;
  }

  [[nodiscard]] const Problem& problem() const noexcept { return problem_; }
  [[nodiscard]] const Inputs& inputs() const noexcept { return inputs_; }
  [[nodiscard]] const std::vector<Index>& rows() const noexcept { return rows_; }

 private:
  // Returns the error of tanh at z, beyond that of the formats.
  [[nodiscard]] double tanh_error(double z) const {
    const Arithmetic& how = contract_.arithmetic;
    const double c = problem_.softcap, u = unit_roundoff(contract_.policy[Stage::softcap]);
    if (c == 0) return 0;
    const double subnormal = 4 * how.tanh_ulp * half_smallest_subnormal(contract_.policy[Stage::softcap]) * c;
    return how.tanh == TanhError::absolute ? (4 * how.tanh_ulp + 4) * u * c
                                           : (4 * how.tanh_ulp + 4) * u * std::min(c, std::fabs(z)) + subnormal;
  }
  [[nodiscard]] bool exp2() const noexcept { return contract_.arithmetic.exp2; }
  [[nodiscard]] bool wide() const noexcept { return contract_.policy[Stage::softmax] == Format::f64; }
  [[nodiscard]] double lead() const noexcept { return (wide() ? 800 : 128) + contract_.lazy_nats(); }

  // Returns by how many nats the exp2 trick may move an exponent.
  [[nodiscard]] double exp2_shift(double score) const noexcept {
    return exp2() ? 4 * unit_roundoff(contract_.policy[Stage::softmax]) * score : 0;
  }
  // The score after softcap and bias.
  [[nodiscard]] double finish(double raw, double bias) const {
    const double c = inputs_.softcap;
    const auto cap = [&](double s) { return c > 0 ? c * std::tanh(s / c) : s; };
    return contract_.softcap_before_bias ? cap(raw) + bias : cap(raw + bias);
  }

  // Tells whether key j may win the row: attended, and its bias leaves the score what it must be.
  [[nodiscard]] bool usable(Index b, Index h, Index i, Index j) const {
    if (masks_.part(b, h, i, j) != Part::attended) return false;
    const double bias = masks_.bias(b, h, i, j);
    return exp2() ? bias == 0 : std::fabs(bias) <= most_bias_;
  }

  // q = +-2^a and k = +-2^b with |sigma| 2^(a+b) >= S; S grows with the bias that it must beat.
  bool choose_magnitudes() {
    const double scale = std::fabs(inputs_.scale);
    double score = wide() ? 1024 : 256;
    for_each_stored(inputs_.bias, [&](Index b, Index h, Index i, Index j) {
      const double bias = std::fabs(inputs_.bias.at(b, h, i, j));
      while (bias <= most_bias_ && score < 4 * bias) score *= 4;
    });
    const int exponent = static_cast<int>(std::ceil(std::log2(score / scale)));
    query_exponent_ = static_cast<int>(std::floor(exponent / 2.0));
    key_exponent_ = exponent - query_exponent_;
    const double q = std::ldexp(1.0, query_exponent_), k = std::ldexp(1.0, key_exponent_);
    // Every way of folding the scale stays normal and finite.
    const double least = std::min({q, k, q * scale, k * scale, scale}),
                 most = std::max({q, k, q * scale, k * scale, q * k, q * k * scale, scale});
    return least >= 4 * std::max(formats_.least, smallest_normal(problem_.dtype)) && most < formats_.overflow / 8 &&
           q < overflow_threshold(problem_.dtype) && k < overflow_threshold(problem_.dtype);
  }

  // Sums of n weights and values are finite, and n remnants of exp round away.
  [[nodiscard]] bool room_for(double n, double largest_score) const {
    const Format softmax = contract_.policy[Stage::softmax], pv = contract_.policy[Stage::pv];
    const double u_sum = unit_roundoff(softmax), u_pv = unit_roundoff(pv);
    const double u_out = std::max(unit_roundoff(contract_.policy[Stage::output]), unit_roundoff(problem_.dtype));
    const double shift = exp2_shift(largest_score);
    if (shift > 16) return false;
    const double grown = 8 * n * std::exp(contract_.lazy_nats() + shift);
    const Arithmetic& arithmetic = contract_.arithmetic;
    const double subnormals = 2 * std::max(arithmetic.exp_ulp, 0.75) * half_smallest_subnormal(softmax);
    const double remnant = has_short_range(softmax) ? subnormals : std::max(subnormals, smallest_normal(softmax));
    if (!(grown < overflow_threshold(softmax) && grown < overflow_threshold(pv) && 16 * n * remnant <= u_sum))
      return false;
    // From the sum of weights they round away; from that of values too, or else, with its roundings, from the output.
    if (arithmetic.sums_to_nearest()) return 16 * n * remnant <= u_pv || 16 * n * (remnant + u_pv) <= u_out;
    // An accumulator that truncates loses a step for the least of them.
    const double lost = arithmetic.units_of_sums(pv) * u_pv + arithmetic.units_of_sums(softmax) * u_sum;
    return 16 * n * (remnant + lost) <= u_out;
  }

  // Gives the stored q row a winner that the row may see, unless another row that shares it did: an old one, or a new
  // one while there are free columns. A column serves two winners, by sign.
  void place_winner(Index row) {
    const Problem& p = problem_;
    const auto [b, h, i] = row_index(p, row);
    const auto shared = [](const Tensor& tensor, std::size_t axis, Index index) {
      return tensor.strides()[axis] == 0 ? 0 : index;
    };
    for (Index c = 0; c < p.d; ++c)
      if (inputs_.q.at(b, h, i, c) != 0) return;
    const Index kv = h / p.group();
    std::vector<Index>& winners = winners_[{shared(inputs_.k, 0, b), shared(inputs_.k, 1, kv)}];
    // Draws by the row's place in the whole problem, so that a slice has the same winner.
    std::uint64_t bits = draw(p, 72);
    for (const Index at : {p.b0 + b, p.hq0 + h, p.lq0 + i}) bits = extend(bits, static_cast<std::uint64_t>(at));
    std::size_t slot = winners.size();
    if (slot < static_cast<std::size_t>(2 * p.d)) {
      const Index key = some_usable(b, h, i, bits);
      if (key < 0) return;
      slot = static_cast<std::size_t>(std::ranges::find(winners, key) - winners.begin());
      if (slot == winners.size()) {
        winners.push_back(key);
        inputs_.k.set(b, kv, key, static_cast<Index>(slot / 2), std::ldexp(slot % 2 ? -1.0 : 1.0, key_exponent_));
      }
    } else {
      std::vector<std::size_t> open;
      for (std::size_t w = 0; w < winners.size(); ++w)
        if (usable(b, h, i, winners[w])) open.push_back(w);
      if (open.empty()) return;
      slot = open[below(bits, open.size())];
    }
    const double sign = (slot % 2 ? -1.0 : 1.0) * (inputs_.scale < 0 ? -1 : 1);
    inputs_.q.set(b, h, i, static_cast<Index>(slot / 2), std::ldexp(sign, query_exponent_));
  }

  // Returns a usable key of the row: one time in four the last, which a tile of its own may hold, else any. -1 if there
  // is none.
  [[nodiscard]] Index some_usable(Index b, Index h, Index i, std::uint64_t bits) const {
    if (below(mix(bits), 4) == 0)
      for (Index j = problem_.lk; j-- > 0;)
        if (usable(b, h, i, j)) return j;
    const auto start = static_cast<Index>(below(bits, static_cast<std::uint64_t>(problem_.lk)));
    for (Index n = 0; n < problem_.lk; ++n)
      if (const Index j = (start + n) % problem_.lk; usable(b, h, i, j)) return j;
    return -1;
  }

  static constexpr double most_bias_ = 4096;

  const Contract& contract_;
  Problem problem_;
  Inputs inputs_;
  ScoreFormats formats_;
  Masks masks_;
  std::vector<Index> rows_;
  int query_exponent_ = 0, key_exponent_ = 0;
  std::map<std::pair<Index, Index>, std::vector<Index>> winners_;  // by stored (batch, key/value head)
};

Verdict check_hard_selection(Trial& trial) {
  const Problem& p = trial.problem();
  Selection selection(trial, *choose_scale(p, trial.contract(), trial.subject().info().supports));
  if (!selection.build()) return Verdict::skip("no powers of two give such scores in these formats");
  std::vector<std::pair<Index, Index>> rows;  // row and its winner
  for (const Index row : selection.rows()) {
    const auto [b, h, i] = row_index(p, row);
    if (const Index key = selection.winner(b, h, i); key >= 0) rows.emplace_back(row, key);
  }
  if (rows.empty()) return Verdict::skip("no row in which a key can win clearly");

  const Result result = trial.run(selection.inputs(), selection.problem());
  if (result.violation) return Verdict::fail(*result.violation);
  Counts counts;
  for (const auto& [row, key] : rows) {
    const auto [b, h, i] = row_index(p, row);
    for (Index c = 0; c < p.dv; ++c) {
      ++counts.judged;
      const double got = result.out.at(b, h, i, c), expected = selection.inputs().v.at(b, h / p.group(), key, c);
      if (got == expected) continue;
      return Verdict::fail(
          exact_evidence({b, h, i, c}, got, expected, fmt::format("key {} leads this row by more than 128 nats", key)),
          counts);
    }
  }
  return Verdict::pass(counts);
}

}  // namespace

Property hard_selection() {
  return {"hard-selection",
          "s_w > s_j + 128 for all j != w  =>  out = v_w",
          "a key that leads by more than 128 nats (800 for f64) owns its row: the index, mask and head-map test",
          Kind::exact,
          hard_selection_not_applicable,
          check_hard_selection};
}

}  // namespace attest::properties

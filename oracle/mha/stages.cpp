// Stages one by one: each by its own bound, given what the block gave of the stages before.
#include "oracle/mha/stages.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "oracle/mha/mha.hpp"

namespace attest::oracle {
namespace {

Enclosure of_interval(double lo, double hi, double y) {
  Enclosure at;
  at.y = y;
  at.lo = lo;
  at.hi = hi;
  at.hull_lo = -infinity;
  at.hull_hi = infinity;
  at.undetermined = at.nonfinite_ok = !std::isfinite(lo) || !std::isfinite(hi);
  return at;
}

Tensor exactly(const attest_tensor& from) {
  Tensor copy(DType::f64, std::array<Index, 4>{from.shape[0], from.shape[1], from.shape[2], from.shape[3]});
  for (Index b = 0; b < from.shape[0]; ++b)
    for (Index h = 0; h < from.shape[1]; ++h)
      for (Index i = 0; i < from.shape[2]; ++i)
        for (Index c = 0; c < from.shape[3]; ++c) copy.set(b, h, i, c, attest_load(&from, b, h, i, c));
  return copy;
}

// Tells whether a tensor holds what a stage of this format leaves, so that the next one starts from it.
bool holds(const attest_tensor& tensor, Format left) {
  return attest_present(&tensor) && !loses(format_of(*dtype_of(tensor.dtype)), left);
}

Format wide_of(Format storage) { return storage == Format::f64 ? Format::f64 : Format::f32; }
Format left_by(Format storage, WayName name) {
  return name.projected == mha::Projected::unrounded ? wide_of(storage) : storage;
}

// Returns the way of q, k and v as given, or else as the projections may leave them.
Way way_from(const Way::Block& block, const Way& way, WayName name) {
  const mha::Call::Stages& given = block.call.stages;
  const Format left = left_by(block.storage, name);
  attest::Inputs centres;
  Radii radii;
  const auto start = [&](const attest_tensor& tensor, const Tensor& centre, const Tensor& radius, Tensor& to,
                         Tensor& to_radius) {
    to = holds(tensor, left) ? exactly(tensor) : centre.clone();
    if (!holds(tensor, left)) to_radius = radius.clone();
  };
  start(given.q, way.centres().q, way.radii().q, centres.q, radii.q);
  start(given.k, way.centres().k, way.radii().k, centres.k, radii.k);
  start(given.v, way.centres().v, way.radii().v, centres.v, radii.v);
  return Way(block, name.projected, name.heads_rounded, std::move(centres), std::move(radii));
}

}  // namespace

std::string_view name(BlockStage stage) noexcept {
  constexpr std::array<std::string_view, block_stages.size()> names{"q", "k", "v", "heads", "out"};
  return names[static_cast<std::size_t>(stage)];
}

BlockStages::BlockStages(const Way::Block& block, const Way& way, WayName name, const std::vector<Index>& rows)
    : block_(block),
      way_(way),
      rows_(rows),
      name_(name),
      wide_(wide_of(block.storage)),
      left_(left_by(block.storage, name)),
      from_(way_from(block, way, name)),
      heads_given_(holds(block.call.stages.heads, way.heads_format())) {}

const attest_tensor& BlockStages::given(BlockStage stage) const noexcept {
  static const attest_tensor absent{};
  const mha::Call::Stages& stages = block_.call.stages;
  const attest_tensor* const all[] = {&stages.q, &stages.k, &stages.v, &stages.heads, &absent};
  return *all[static_cast<std::size_t>(stage)];
}

Rounding BlockStages::rounding(BlockStage stage, DType tensor) const noexcept {
  const Format format = stage == BlockStage::out     ? block_.contract.attention.policy[Stage::output]
                        : stage == BlockStage::heads ? (name_.heads_rounded ? block_.storage : wide_)
                                                     : left_;
  return {format, format_of(tensor), way_.flushes()};
}

Enclosure BlockStages::enclosure(BlockStage stage, const std::array<std::int64_t, 4>& index) {
  switch (stage) {
    case BlockStage::q:
      return of_projection(way_.centres().q, way_.radii().q, index);
    case BlockStage::k:
      return of_projection(way_.centres().k, way_.radii().k, index);
    case BlockStage::v:
      return of_projection(way_.centres().v, way_.radii().v, index);
    case BlockStage::heads:
    case BlockStage::out:
      break;
  }
  const auto [b, i, c, unused] = index;
  if (stage == BlockStage::out && heads_given_) return of_heads_given(index);
  if (b != row_b_ || i != row_i_) row_.start(block_, b, i);
  row_b_ = b;
  row_i_ = i;
  const Index d = block_.call.head_dim;
  return stage == BlockStage::heads ? row_.head(from_, c / d, c % d) : row_.enclosure(block_, from_, c);
}

Enclosure BlockStages::of_projection(const Tensor& centre, const Tensor& radius,
                                     const std::array<std::int64_t, 4>& index) const {
  const auto [b, h, i, c] = index;
  const double at = centre.at(b, h, i, c), off = radius.at(b, h, i, c);
  return of_interval(at - off, at + off, at);
}

Enclosure BlockStages::of_heads_given(const std::array<std::int64_t, 4>& index) {
  const mha::Call& call = block_.call;
  if (!out_of_heads_)
    out_of_heads_ = project(way_.out_rule(), read_matrix(call.stages.heads), block_.w_out,
                            way_.separate() ? nullptr : block_.b_out.data());
  const Projected& of = *out_of_heads_;
  // Whatever is added last is rounded to the stage `output` alone, by whoever judges it.
  const Index row = index[0] * call.l() + index[1], e = index[2];
  const double bias = block_.b_out[static_cast<std::size_t>(e)];
  const bool flushes = way_.flushes();
  Interval at{of.value(row, e) - of.error(row, e), of.value(row, e) + of.error(row, e)};
  if (way_.separate()) at = with_bias(rounded_ends(block_.storage, flushes, at), block_.storage, flushes, bias);
  Enclosure enclosure = of_interval(at.lo, at.hi, of.value(row, e) + (way_.separate() ? bias : 0));
  if (of.is_unknown(row, e)) enclosure.undetermined = enclosure.nonfinite_ok = true;
  if (!(std::max(std::fabs(at.lo), std::fabs(at.hi)) < overflow_threshold(block_.storage)))
    enclosure.nonfinite_ok = true;
  return enclosure;
}

bool BlockStages::walk(BlockStage stage, const attest_tensor& tensor, const Visit& visit) {
  const Rounding round = rounding(stage, *dtype_of(tensor.dtype));
  std::array<Index, 4> n{1, 1, 1, 1};
  std::copy_n(tensor.shape, tensor.ndim, n.begin());
  // q is [b, head, token, column], heads and out [b, token, column].
  const bool of_memory = stage == BlockStage::k || stage == BlockStage::v;
  const auto asked = [&](Index b, Index h, Index i) {
    return of_memory || std::ranges::binary_search(rows_, b * block_.call.l() + (stage == BlockStage::q ? i : h));
  };
  for (Index b = 0; b < n[0]; ++b)
    for (Index h = 0; h < n[1]; ++h)
      for (Index i = 0; i < n[2]; ++i)
        for (Index c = 0; c < n[3] && asked(b, h, i); ++c) {
          const Enclosure at = enclosure(stage, {b, h, i, c});
          const double got = attest_load(&tensor, b, h, i, c);
          if (!visit({stage, {b, h, i, c}, at, round, got, judge_element(at, round, got)})) return false;
        }
  return true;
}

void BlockStages::walk(const Tensor& out, const Visit& visit) {
  for (const BlockStage stage : block_stages) {
    const attest_tensor tensor = stage == BlockStage::out ? out.view() : given(stage);
    if (attest_present(&tensor) && !walk(stage, tensor, visit)) return;
  }
}

std::optional<Evidence> BlockStages::first_outside(const Tensor& out, Counts& counts) {
  std::optional<Evidence> evidence;
  walk(out, [&](const Visited& at) {
    ++(at.outcome == Outcome::undetermined ? counts.undetermined : counts.judged);
    if (at.outcome != Outcome::outside) return true;
    evidence = evidence_of(at.enclosure, at.round, at.got);
    evidence->tensor = name(at.stage);
    evidence->index = at.index;
    return false;
  });
  return evidence;
}

std::unique_ptr<BlockStages> MhaOracle::stages(std::size_t n) {
  return std::make_unique<BlockStages>(block_, way(n), names_[n], rows_);
}

Verdict MhaOracle::judge_stages(const Tensor& out) {
  Verdict first;
  judged_way_ = 0;
  for (std::size_t n = 0; n < names_.size(); ++n) {
    Counts counts;
    std::optional<Evidence> evidence = stages(n)->first_outside(out, counts);
    if (!evidence) {
      judged_way_ = n;
      return counts.judged > 0 ? Verdict::pass(counts) : Verdict::vacuous("undetermined", counts);
    }
    if (n == 0) first = Verdict::fail(std::move(*evidence), counts);
  }
  return first;
}

void MhaOracle::walk_stages(const Tensor& out, const BlockStages::Visit& visit) {
  (void)judge_stages(out);
  stages(judged_way_)->walk(out, visit);
}

}  // namespace attest::oracle

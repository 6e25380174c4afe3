// Stages one by one: each by its own bound, given what the block gave of the stages before.
#include <cmath>
#include <limits>

#include "oracle/mha/mha.hpp"
#include "oracle/outcome.hpp"

namespace attest::oracle {
namespace {

// The first element outside, if any.
class Judge {
 public:
  // With `visit` none stops it.
  Judge(const char* name, const attest_tensor& tensor, Format stage, bool flush, Counts& counts,
        const MhaOracle::Visit* visit)
      : name_(name),
        tensor_(tensor),
        round_{stage, format_of(*dtype_of(tensor.dtype)), flush},
        counts_(counts),
        visit_(visit) {}

  [[nodiscard]] std::optional<Evidence> operator()(const Enclosure& at, std::array<std::int64_t, 4> index) const {
    const double got = attest_load(&tensor_, index[0], index[1], index[2], index[3]);
    const Outcome outcome = judge_element(at, round_, got);
    ++(outcome == Outcome::undetermined ? counts_.undetermined : counts_.judged);
    if (visit_ != nullptr) (*visit_)({name_, index, at, round_, got, outcome});
    if (outcome != Outcome::outside || visit_ != nullptr) return {};
    Evidence evidence = evidence_of(at, round_, got);
    evidence.tensor = name_;
    evidence.index = index;
    return evidence;
  }

 private:
  const char* name_;
  const attest_tensor& tensor_;
  Rounding round_;
  Counts& counts_;
  const MhaOracle::Visit* visit_;
};

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

// Whether a tensor holds what a stage of this format leaves, so that the next one starts from it.
bool holds(const attest_tensor& tensor, Format left) {
  return attest_present(&tensor) && !loses(format_of(*dtype_of(tensor.dtype)), left);
}

class Stages {
 public:
  Stages(const Way::Block& block, const Way& way, WayName name, const MhaOracle::Visit* visit = nullptr)
      : block_(block), way_(way), name_(name), visit_(visit) {
    const Format wide = block.storage == Format::f64 ? Format::f64 : Format::f32;
    left_ = name.projected == mha::Projected::unrounded ? wide : block.storage;
  }

  // The first element outside, in the order of the stages.
  std::optional<Evidence> operator()(const Tensor& out, Counts& counts) {
    const mha::Call::Stages& given = block_.call.stages;
    const Format wide = block_.storage == Format::f64 ? Format::f64 : Format::f32;
    const struct {
      const char* name;
      const attest_tensor& tensor;
      const Tensor &centre, &radius;
    } projections[] = {{"q", given.q, way_.centres().q, way_.radii().q},
                       {"k", given.k, way_.centres().k, way_.radii().k},
                       {"v", given.v, way_.centres().v, way_.radii().v}};
    for (const auto& of : projections)
      if (attest_present(&of.tensor))
        if (auto evidence =
                projection(Judge(of.name, of.tensor, left_, way_.flushes(), counts, visit_), of.centre, of.radius))
          return evidence;

    attest::Inputs centres;
    Radii radii;
    const auto start = [this](const attest_tensor& tensor, const Tensor& centre, const Tensor& radius, Tensor& to,
                              Tensor& to_radius) {
      to = holds(tensor, left_) ? exactly(tensor) : centre.clone();
      if (!holds(tensor, left_)) to_radius = radius.clone();
    };
    start(given.q, way_.centres().q, way_.radii().q, centres.q, radii.q);
    start(given.k, way_.centres().k, way_.radii().k, centres.k, radii.k);
    start(given.v, way_.centres().v, way_.radii().v, centres.v, radii.v);
    const Way from(block_, name_.projected, name_.heads_rounded, std::move(centres), std::move(radii));
    if (attest_present(&given.heads))
      if (auto evidence = heads(
              Judge("heads", given.heads, name_.heads_rounded ? block_.storage : wide, way_.flushes(), counts, visit_),
              from))
        return evidence;

    const attest_tensor view = out.view();
    const Judge judge("out", view, block_.contract.attention.policy[Stage::output], way_.flushes(), counts, visit_);
    return holds(given.heads, way_.heads_format()) ? out_of_heads(judge) : out_of_projections(judge, from);
  }

 private:
  std::optional<Evidence> projection(const Judge& judge, const Tensor& centre, const Tensor& radius) const {
    const auto& n = centre.shape();
    for (Index b = 0; b < n[0]; ++b)
      for (Index h = 0; h < n[1]; ++h)
        for (Index i = 0; i < n[2]; ++i)
          for (Index c = 0; c < n[3]; ++c) {
            const double at = centre.at(b, h, i, c), off = radius.at(b, h, i, c);
            if (auto evidence = judge(of_interval(at - off, at + off, at), {b, h, i, c})) return evidence;
          }
    return {};
  }

  std::optional<Evidence> heads(const Judge& judge, const Way& from) {
    const mha::Call& call = block_.call;
    for (Index b = 0; b < call.b(); ++b)
      for (Index i = 0; i < call.l(); ++i) {
        row_.start(block_, b, i);
        for (Index c = 0; c < call.q_width(); ++c)
          if (auto evidence = judge(row_.head(from, c / call.head_dim, c % call.head_dim), {b, i, c, 0}))
            return evidence;
      }
    return {};
  }

  std::optional<Evidence> out_of_projections(const Judge& judge, const Way& from) {
    for (Index b = 0; b < block_.call.b(); ++b)
      for (Index i = 0; i < block_.call.l(); ++i) {
        row_.start(block_, b, i);
        for (Index e = 0; e < block_.call.e(); ++e)
          if (auto evidence = judge(row_.enclosure(block_, from, e), {b, i, e, 0})) return evidence;
      }
    return {};
  }

  std::optional<Evidence> out_of_heads(const Judge& judge) const {
    const mha::Call& call = block_.call;
    const Projected of = project(way_.out_rule(), read_matrix(call.stages.heads), block_.w_out,
                                 way_.separate() ? nullptr : block_.b_out.data());
    // A projection that is left unrounded is rounded to the tensor all the same.
    const mha::Projected how = way_.separate() ? mha::Projected::separate : mha::Projected::unrounded;
    for (Index row = 0; row < of.value.rows(); ++row)
      for (Index e = 0; e < call.e(); ++e) {
        const double bias = block_.b_out[static_cast<std::size_t>(e)];
        const Interval at = stored(how, block_.storage, way_.flushes(), of.value(row, e), of.error(row, e), bias);
        Enclosure enclosure = of_interval(at.lo, at.hi, of.value(row, e) + (way_.separate() ? bias : 0));
        if (of.is_unknown(row, e)) enclosure.undetermined = enclosure.nonfinite_ok = true;
        if (!(std::max(std::fabs(at.lo), std::fabs(at.hi)) < overflow_threshold(block_.storage)))
          enclosure.nonfinite_ok = true;
        if (auto evidence = judge(enclosure, {row / call.l(), row % call.l(), e, 0})) return evidence;
      }
    return {};
  }

  const Way::Block& block_;
  const Way& way_;
  WayName name_;
  const MhaOracle::Visit* visit_;
  Format left_;
  OutRow row_;
};

// A tensor of another's elements in a type that holds them.
Tensor copied(DType type, std::array<Index, 4> shape, const auto& at) {
  Tensor copy(type, shape);
  for (Index b = 0; b < shape[0]; ++b)
    for (Index h = 0; h < shape[1]; ++h)
      for (Index i = 0; i < shape[2]; ++i)
        for (Index c = 0; c < shape[3]; ++c) copy.set(b, h, i, c, at(b, h, i, c));
  return copy;
}

// Given q, k and v the heads are a result of attention like any other.
void look_at_heads(const Way::Block& block, WayName name, Statistics& statistics) {
  const mha::Call& call = block.call;
  const mha::Call::Stages& given = call.stages;
  if (name.projected == mha::Projected::unrounded || !name.heads_rounded) return;
  for (const attest_tensor* stage : {&given.q, &given.k, &given.v, &given.heads})
    if (!holds(*stage, block.storage)) return;
  if (!statistical_refusal(block.contract.attention).empty()) return;
  attest::Contract contract = block.contract.attention;
  contract.policy = policy_of(block.contract, name.projected, name.heads_rounded);
  const DType type = dtype_of(block.storage);
  const Index d = call.head_dim;
  const auto as_given = [](const attest_tensor& from) {
    return [&from](Index b, Index h, Index i, Index c) { return attest_load(&from, b, h, i, c); };
  };
  attest::Inputs inputs;
  inputs.q = copied(type, {call.b(), call.heads, call.l(), d}, as_given(given.q));
  inputs.k = copied(type, {call.b(), call.kv_heads, call.m(), d}, as_given(given.k));
  inputs.v = copied(type, {call.b(), call.kv_heads, call.m(), d}, as_given(given.v));
  inputs.scale = call.scale;
  inputs.causal = call.causal;
  inputs.align = call.align;
  if (attest_present(&call.bias))
    inputs.bias = copied(*dtype_of(call.bias.dtype), {call.b(), call.heads, call.l(), call.m()}, as_given(call.bias));
  if (attest_present(&call.keep))
    inputs.keep = copied(DType::boolean, {call.b(), call.heads, call.l(), call.m()},
                         [&](Index b, Index h, Index i, Index j) { return attest::load(call.keep, b, h, i, j); });
  if (attest_present(&call.kv_lengths)) {
    inputs.kv_lengths = Tensor(DType::i32, std::array{call.b()});
    for (Index b = 0; b < call.b(); ++b) inputs.kv_lengths.set(b, 0, 0, 0, attest::load(call.kv_lengths, b));
  }
  const Tensor heads = copied(type, {call.b(), call.heads, call.l(), d}, [&](Index b, Index h, Index i, Index c) {
    return attest_load(&given.heads, b, i, h * d + c, 0);
  });
  const attest::Problem problem = mha::attention_of(call, block.storage);
  AttentionOracle(contract, problem, inputs).judge(heads, {}, &statistics);
}

}  // namespace

Verdict MhaOracle::judge_stages(const Tensor& out, Statistics* statistics) {
  Verdict first;
  for (std::size_t n = 0; n < names_.size(); ++n) {
    Counts counts;
    std::optional<Evidence> evidence = Stages(block_, way(n), names_[n])(out, counts);
    if (!evidence && statistics != nullptr) look_at_heads(block_, names_[n], *statistics);
    if (!evidence) return counts.judged > 0 ? Verdict::pass(counts) : Verdict::vacuous("undetermined", counts);
    if (n == 0) first = Verdict::fail(std::move(*evidence), counts);
  }
  return first;
}

void MhaOracle::walk_stages(const Tensor& out, const Visit& visit) {
  std::size_t best = 0;
  for (std::size_t n = 0; n < names_.size(); ++n) {
    Counts counts;
    if (Stages(block_, way(n), names_[n])(out, counts)) continue;
    best = n;
    break;
  }
  Counts counts;
  Stages(block_, way(best), names_[best], &visit)(out, counts);
}

}  // namespace attest::oracle

// Probes the options that a block adds to attention: biases, the split of weights and results into heads, packed
// projections; and the stages that some subjects return.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ops/mha/parts.hpp"
#include "ops/mha/probe/parts.hpp"

namespace attest::ops::of_mha {
namespace {

using attest::mha::Biases;
using probing::Meaning;

class BlockMeanings {
 public:
  explicit BlockMeanings(const BlockAsking& asking) : asking_(asking), supports_(asking.maker.supports()) {}

  std::vector<ProbeRow> rows() {
    bias_of_q();
    bias_of_k();
    bias_of_v();
    bias_of_out();
    heads();
    projections();
    packed();
    return std::move(rows_);
  }

 private:
  // The blank problem with the biases that are asked for, beside those that the subject needs.
  [[nodiscard]] std::optional<Problem> with_biases(BlockMaker::Shape shape, bool in, bool out) const {
    auto p = asking_.maker.blank(shape);
    if (!p) return p;
    in = in || p->has_in_biases();
    out = out || p->has_out_bias();
    p->biases = in ? out ? Biases::all : Biases::in : out ? Biases::out : Biases::none;
    return p;
  }
  [[nodiscard]] Index least(const DimRange& range) const { return range.nearest(1); }

  // Two tokens, or an even number; q is 1 where it is not a bias, the first key of two is 4/scale where it is not one;
  // so are values.
  [[nodiscard]] std::optional<Problem> scored(bool in) const {
    const Index tokens = asking_.maker.even_tokens(2);
    if (tokens == 0) return std::nullopt;
    auto p = with_biases({1, least(supports_.l), tokens, 1, 1, supports_.head_dim.nearest(4), 4}, in, false);
    if (!p) return p;
    for (Index j = 0; j < p->m; j += 2) set_memory(*p, j, 2, 1);
    set(*p, Edit::Tensor::w_v, {0, 2, 0, 0}, 1);
    set(*p, Edit::Tensor::w_out, {0, 0, 0, 0}, 1);
    return p;
  }
  void by_score(std::string stage, const Problem& p, const std::vector<Meaning>& meanings) {
    const auto score = [](const probing::Elements& out) { return of_attention::logit(out("out", {})); };
    rows_.push_back(probing::by_meaning(asking_.asked, std::move(stage), p, score, meanings, "a score of "));
  }
  void by_value(std::string stage, const Problem& p, const std::vector<Meaning>& meanings) {
    rows_.push_back(probing::by_meaning(asking_.asked, std::move(stage), p, probing::element({}), meanings));
  }

  void bias_of_q() {
    auto p = supports_.in_biases ? scored(true) : std::nullopt;
    if (!p) return;
    if (supports_.scale != Supports::Scale::only_default) p->scale = 0.5;
    const double scale = p->effective_scale();
    for (Index j = 0; j < p->m; j += 2) set_memory(*p, j, 1, 6);
    set(*p, Edit::Tensor::w_k, {0, 1, 0, 0}, 1);
    set(*p, Edit::Tensor::b_q, {0, 0, 0, 0}, 1);
    by_score("b_q", *p, {{6 * scale, "added to q"}, {0, "dropped"}, {6, "added behind the scale"}});
  }
  void bias_of_k() {
    auto p = supports_.in_biases ? scored(true) : std::nullopt;
    if (!p) return;
    const double scale = p->effective_scale();
    set(*p, Edit::Tensor::x, {0, 0, 0, 0}, 1);
    for (Index j = 0; j < p->m; j += 2) set_memory(*p, j, 1, 2 / scale);
    set(*p, Edit::Tensor::w_q, {0, 0, 0, 0}, 1);
    set(*p, Edit::Tensor::w_k, {0, 1, 0, 0}, 1);
    set(*p, Edit::Tensor::b_k, {0, 0, 0, 0}, 1);
    by_score("b_k", *p, {{2, "moves all scores alike"}, {3, "added to some"}});
  }
  // One token of memory, whose value is 2.
  [[nodiscard]] std::optional<Problem> valued(bool in, bool out) const {
    auto p = with_biases({1, least(supports_.l), least(supports_.m), 1, 1, least(supports_.head_dim), 2}, in, out);
    if (!p) return p;
    for (Index j = 0; j < p->m; ++j) set_memory(*p, j, 0, 1);
    set(*p, Edit::Tensor::w_v, {0, 0, 0, 0}, 2);
    set(*p, Edit::Tensor::w_out, {0, 0, 0, 0}, 2);
    return p;
  }
  void bias_of_v() {
    auto p = supports_.in_biases ? valued(true, false) : std::nullopt;
    if (!p) return;
    set(*p, Edit::Tensor::b_v, {0, 0, 0, 0}, 3);
    by_value("b_v", *p, {{10, "added to v"}, {4, "dropped"}, {7, "added to out"}});
  }
  void bias_of_out() {
    auto p = supports_.out_bias ? valued(false, true) : std::nullopt;
    if (!p) return;
    set(*p, Edit::Tensor::b_out, {0, 0, 0, 0}, 16);
    by_value("b_out", *p, {{20, "added to out"}, {4, "dropped"}, {36, "added before the projection"}});
  }

  // The first head takes the first of two tokens, the second both.
  void heads() {
    const Index tokens = asking_.maker.even_tokens(2);
    auto p = tokens == 2 && supports_.head_dim.offers(2) ? asking_.maker.blank({1, 2, 2, 2, 2, 2, 4}) : std::nullopt;
    if (!p || p->l != 2) return;
    const double score = 16 / p->effective_scale();
    for (Index i = 0; i < 2; ++i) set(*p, Edit::Tensor::x, {0, i, 0, 0}, 1);
    set_memory(*p, 0, 1, score);
    set_memory(*p, 1, 1, -score);
    set_memory(*p, 0, 2, 1);
    set(*p, Edit::Tensor::w_q, {0, 0, 0, 0}, 1);
    set(*p, Edit::Tensor::w_k, {0, 1, 0, 0}, 1);
    for (Index n = 0; n < 4; ++n) {
      set(*p, Edit::Tensor::w_v, {n, 2, 0, 0}, 1);
      set(*p, Edit::Tensor::w_out, {n, n, 0, 0}, 1);
    }
    const probing::Shown shown = asking_.asked.ask(*p);
    std::string observed;
    if (shown.done()) {
      for (Index i = 0; i < 2; ++i)
        for (Index n = 0; n < 4; ++n)
          observed += fmt::format("{}{:.2g}", n == 0 ? i == 0 ? "" : " | " : ",", shown.at({0, i, n, 0}));
      observed = observed == "1,1,0.5,0.5 | 1,1,0.5,0.5"   ? "rows h * head_dim + c"
                 : observed == "1,0.5,1,0.5 | 1,0.5,1,0.5" ? "rows c * heads + h"
                 : observed == "1,1,1,1 | 0.5,0.5,0.5,0.5" ? "put together without their transpose"
                                                           : "give " + observed;
    }
    rows_.push_back(probing::held_row("heads", "rows h * head_dim + c", observed, shown));
  }

  // x and memory hold different columns, where one is not the other.
  void projections() {
    const Index tokens = asking_.maker.even_tokens(2);
    auto p = tokens != 0 ? asking_.maker.blank({1, least(supports_.l), tokens, 1, 1, supports_.head_dim.nearest(1), 4})
                         : std::nullopt;
    if (!p) return;
    const double score = 8 / p->effective_scale();
    set(*p, Edit::Tensor::x, {0, 0, 0, 0}, 1);
    for (Index j = 0; j < p->m; j += 2) {
      set_memory(*p, j, 1, score);
      set_memory(*p, j, 2, 2);
      set_memory(*p, j, 3, 3);
    }
    set(*p, Edit::Tensor::w_q, {0, 0, 0, 0}, 1);
    set(*p, Edit::Tensor::w_k, {0, 1, 0, 0}, 1);
    set(*p, Edit::Tensor::w_v, {0, 2, 0, 0}, 1);
    set(*p, Edit::Tensor::w_out, {0, 0, 0, 0}, 1);
    by_value("projections", *p,
             {{2 * of_attention::logistic(8), "q of x, k and v of memory"}, {1, "q and k are each other's"}});
  }

  // One token; rows of w_q are 1 and 2, of w_k 3 and 4, of w_v 5 and 6.
  void packed() {
    auto p = supports_.head_dim.offers(1) ? asking_.maker.blank({1, least(supports_.l), least(supports_.m), 2, 2, 1, 2})
                                          : std::nullopt;
    if (!p) return;
    p->packed = true;
    set(*p, Edit::Tensor::x, {0, 0, 0, 0}, 1);
    for (Index j = 0; j < p->m; ++j)
      if (!p->self || j > 0) set_memory(*p, j, 0, 1);
    for (const auto& [tensor, first] :
         {std::pair{Edit::Tensor::w_q, 1}, {Edit::Tensor::w_k, 3}, {Edit::Tensor::w_v, 5}})
      for (Index n = 0; n < 2; ++n) set(*p, tensor, {n, 0, 0, 0}, static_cast<double>(first + n));
    for (Index n = 0; n < 2; ++n) set(*p, Edit::Tensor::w_out, {n, n, 0, 0}, 1);
    const probing::Shown shown = asking_.asked.ask(*p);
    std::string observed;
    if (shown.done()) {
      observed = fmt::format("{:.3g},{:.3g}", shown.at({0, 0, 0, 0}), shown.at({0, 0, 1, 0}));
      observed = observed == "5,6"   ? "[3, heads, head_dim]"
                 : observed == "3,6" ? "[heads, 3, head_dim]"
                 : observed == "3,4" ? "k stands for v"
                 : observed == "1,2" ? "q stands for v"
                                     : "gives " + observed;
    }
    rows_.push_back(probing::held_row("packed rows", "[3, heads, head_dim]", observed, shown));
  }

  const BlockAsking& asking_;
  const Supports& supports_;
  std::vector<ProbeRow> rows_;
};

}  // namespace

std::vector<ProbeRow> block_rows(const BlockAsking& asking) { return BlockMeanings(asking).rows(); }

std::vector<ProbeRow> given_rows(const BlockAsking& asking) {
  using attest::mha::Weights;
  const Supports& supports = asking.maker.supports();
  if (!supports.gives_stages()) return {};
  const std::string within = "within its bound, given those before";
  std::vector<ProbeRow> rows;
  const auto row = [&](std::string_view stage) {
    ProbeRow told;
    told.stage = fmt::format("given {}", stage);
    told.promised = told.observed = within;
    told.standing = Standing::agrees;
    rows.push_back(std::move(told));
  };
  for (const auto& [gives, stage] : {std::pair{supports.stage_q, "q"},
                                     {supports.stage_k, "k"},
                                     {supports.stage_v, "v"},
                                     {supports.stage_heads, "heads"},
                                     {true, "out"}})
    if (gives) row(stage);
  const Op& op = asking.asked.contract.op();
  const std::vector<Law> laws = op.laws();
  const auto law = std::ranges::find_if(laws, is_stage_bound);
  std::optional<ops::Problem> asked;
  for (const Weights weights : {Weights::dense, Weights::cancelling, Weights::dense_in})
    for (const Index tokens : {1, 5, 32}) {
      auto p = asking.maker.blank(
          {1, supports.l.nearest(tokens), supports.m.nearest(tokens), 2, 2, supports.head_dim.nearest(16), 32});
      if (!p) continue;
      p->weights = weights;
      p->scale.reset();
      p->seed = 0x70726F6265;
      asked = *p;
      std::optional<Evidence> outside;
      try {
        const Verdict verdict = op.trial(*p, asking.asked.contract, asking.asked.subject, nullptr)->check(*law);
        if (verdict.kind == VerdictKind::fail) outside = verdict.evidence;
      } catch (const properties::CallFailed& failed) {
        for (ProbeRow& each : rows) each = probing::untold(each.stage, within, "refused: " + failed.result.message);
        return rows;
      }
      if (!outside) continue;
      bool behind = false;
      for (ProbeRow& each : rows) {
        if (each.stage == fmt::format("given {}", outside->tensor)) {
          each.observed = "outside its bound";
          each.standing = Standing::contradicts;
          each.evidence = *p;
          each.note = fmt::format("{}[{},{},{},{}] = {:.6g} lies outside [{:.6g}, {:.6g}]", outside->tensor,
                                  outside->index[0], outside->index[1], outside->index[2], outside->index[3],
                                  outside->got, outside->lo, outside->hi);
          behind = true;
        } else if (behind) {
          each.observed = probing::untold("", "", "a stage before it is outside").observed;
          each.standing = Standing::open;
        }
      }
      return rows;
    }
  for (ProbeRow& each : rows) each.evidence = asked;
  return rows;
}

}  // namespace attest::ops::of_mha

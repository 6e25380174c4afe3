// Tests how problems of mha shrink: a smaller problem is one that the subject takes, and keeps the numbers of the
// witness.
#include <gtest/gtest.h>

#include "core/mha/inputs.hpp"
#include "core/rng.hpp"
#include "engine/shrink/candidates.hpp"
#include "generators/mha/domain.hpp"
#include "ops/mha.hpp"
#include "ops/mha/parts.hpp"
#include "subjects/builtin.hpp"

namespace attest::ops {
namespace {

using attest::mha::Supports;
using Own = attest::mha::Problem;

const std::vector<Format> dtypes{Format::f32, Format::f16};

std::vector<Supports> some_subjects() {
  std::vector<Supports> all(3);
  all[1].cross = all[1].gqa = all[1].no_in_biases = false;
  all[1].heads_fill_e = true;
  all[1].head_dim = {8, 64, 8};
  all[1].scale = Supports::Scale::only_default;
  all[2].self = all[2].out_bias = all[2].top_left = false;
  all[2].strides = Strides::contiguous;
  all[2].l = {2, 64, 2};
  all[2].e = {16, 512, 16};
  return all;
}

bool is_taken(const Own& p, const Supports& supports) {
  attest::mha::validate(p);  // throws
  const Format dtype = p.dtype;
  return !declined(p, supports, {&dtype, 1});
}

TEST(MhaShrink, EveryCutIsAProblemThatTheSubjectTakes) {
  for (const Supports& own : some_subjects()) {
    const attest::mha::Domain domain(own, dtypes);
    ops::Supports supports;
    supports.mha = own;
    for (std::uint64_t n = 0; n < 150; ++n) {
      const Own p = draw_counted(domain, 11, n, 1).problem;
      const Witness at{p.b - 1, p.l - 1, p.e - 1, 0};
      EXPECT_TRUE(is_taken(of_mha::capped(p, 2, at, own), own)) << to_text(p);
      EXPECT_TRUE(is_taken(of_mha::sliced(p, 1, at, own), own)) << to_text(p);
      for (const ops::Dimension& dimension : mha_op().dimensions()) {
        const Rungs by = dimension.rungs(p, supports);
        if (dimension.get(p) <= by.least) continue;
        ops::Problem set = p, narrowed = dimension.narrowed(p, by.least, at);
        dimension.set(set, by.least);
        for (ops::Problem* cut : {&set, &narrowed}) {
          EXPECT_EQ(dimension.get(*cut), by.least) << dimension.name << ' ' << to_text(p);
          mha_op().fit(p, *cut, supports);
          EXPECT_TRUE(is_taken(cut->as<Own>(), own)) << dimension.name << ' ' << to_text(p);
        }
      }
      for (const FieldGroup group : reset_groups) {
        ops::Problem plain = reset(ops::Problem(p), group);
        mha_op().fit(p, plain, supports);
        EXPECT_TRUE(is_taken(plain.as<Own>(), own)) << name(group) << ' ' << to_text(p);
      }
      for (const Escape& way : mha_op().escapes(p, p)) {
        ops::Problem other = way.problem;
        mha_op().fit(p, other, supports);
        EXPECT_TRUE(is_taken(other.as<Own>(), own)) << way.change << ' ' << to_text(p);
      }
    }
  }
}

TEST(MhaShrink, KeepsTheWitnesssNumbers) {
  Own p = attest::mha::problem_from_text(
      "b=3 l=5 m=6 e=4 heads=2 kv_heads=2 head_dim=2 padding=rows seed=7 "
      "edits=x[2,3,1]:0x1p+3;memory[2,1,0]:0x1p+2;x[0,0,0]:0x1p+5");
  const Witness at{2, 3, 1, 0};
  const Own cut = of_mha::sliced(p, 1, at, {});
  EXPECT_EQ(cut.b, 1);
  EXPECT_EQ(cut.l, 1);
  EXPECT_EQ(cut.m, 6);
  ASSERT_EQ(cut.edits.size(), 2u);  // that of another sample is gone
  const attest::mha::Inputs whole = materialise(p), part = materialise(cut);
  for (Index c = 0; c < p.e; ++c) {
    EXPECT_EQ(part.x.at(0, 0, c), whole.x.at(2, 3, c));
    for (Index j = 0; j < p.m; ++j) EXPECT_EQ(part.memory.at(0, j, c), whole.memory.at(2, j, c));
  }
  for (Index j = 0; j < p.m; ++j) EXPECT_EQ(part.keep.at(0, 1, 0, j), whole.keep.at(2, 1, 3, j));
  // A token that attends to others keeps those before it.
  p = attest::mha::problem_from_text("b=3 l=5 m=5 e=4 heads=2 kv_heads=2 head_dim=2 self=1 seed=7");
  const Own own = of_mha::sliced(p, 1, at, {});
  EXPECT_EQ(own.l, 4);
  EXPECT_EQ(own.m, 4);
  EXPECT_EQ(materialise(own).x.at(0, 3, 1), materialise(p).x.at(2, 3, 1));
}

TEST(MhaShrink, GroupsStayGroups) {
  const Own p = attest::mha::problem_from_text("heads=12 kv_heads=4 head_dim=2 e=3 l=2 m=2");
  for (const ops::Dimension& dimension : mha_op().dimensions()) {
    ops::Problem cut = p;
    if (dimension.name == "kv_heads") {
      dimension.set(cut, 2);
      EXPECT_EQ(cut.as<Own>().heads, 6);
    } else if (dimension.name == "group") {
      dimension.set(cut, 1);
      EXPECT_EQ(cut.as<Own>().heads, 4);
      EXPECT_EQ(cut.as<Own>().kv_heads, 4);
    }
  }
}

TEST(MhaShrink, ZeroesRowsAndElements) {
  const Own p = attest::mha::problem_from_text("l=1 m=2 e=2 heads=1 kv_heads=1 head_dim=1 biases=none packed=1 seed=3");
  const attest::mha::Inputs before = materialise(p);
  const auto found = of_mha::with_zeroed_elements(ops::Problem(p));
  EXPECT_GT(found.size(), 10u);
  const Tensor none;
  bool key_row = false;
  for (const Candidate& candidate : found) {
    const Own& changed = candidate.problem.as<Own>();
    attest::mha::validate(changed);
    const attest::mha::Inputs after = materialise(changed);
    for (const attest::mha::Edit& edit : changed.edits) EXPECT_EQ(edit.value, 0);
    const attest::mha::Call call = after.call(none);
    key_row = key_row || (load(call.w_k, 0, 0) == 0 && load(call.w_k, 0, 1) == 0 &&
                          load(call.w_q, 0, 0) == load(before.call(none).w_q, 0, 0));
  }
  EXPECT_TRUE(key_row);
  ops::Problem edited = p;
  edited.as<Own>().edits = {{attest::mha::Edit::Tensor::x, {0, 0, 1, 0}, 3}};
  EXPECT_EQ(without_edits_of<attest::mha::Problem>(edited).size(), 1u);
}

TEST(MhaShrink, CanariesAreTaken) {
  for (const Supports& own : some_subjects()) {
    ops::Supports supports;
    supports.mha = own;
    const auto all = mha_op().canaries(supports, Format::f16);
    EXPECT_GE(all.size(), 2u);
    for (const ops::Problem& p : all) EXPECT_TRUE(is_taken(p.as<Own>(), own));
  }
}

// After every failure the canary is asked: it must cost little, and a block with a defect must be right on one.
TEST(MhaShrink, SomeCanaryIsRightDespiteADefect) {
  for (const ListedSubject& fault : fault_subjects("mha")) {
    const auto factory = builtin_subject(fault.name, {});
    const auto subject = factory->open();
    const Law& bound = *find_law("policy-bound", mha_op());
    for (const Format dtype : {Format::f32, Format::f16, Format::bf16}) {
      bool right = false;
      for (const ops::Problem& canary : mha_op().canaries(factory->info(), dtype)) {
        EXPECT_LE(work_of(canary), Index{1} << 14) << to_text(canary);
        const auto trial = mha_op().trial(canary, mha_op().contract(factory->info(), dtype), *subject, nullptr);
        right = right || trial->check(bound).kind == VerdictKind::pass;
      }
      EXPECT_TRUE(right) << fault.name << ' ' << name(dtype);
    }
  }
}

// Self-attention that fails whatever the tokens of x are, or of memory, ends as cross-attention of one of them.
TEST(MhaShrink, TokensAndMemoryPart) {
  const Own p = attest::mha::problem_from_text("b=2 l=4 m=4 self=1 x_layout=tokens_first biases=none");
  int parted = 0;
  for (const ops::Dimension& dimension : mha_op().dimensions()) {
    if (!dimension.name.ends_with("apart from m") && !dimension.name.ends_with("apart from l")) continue;
    ops::Problem cut = p;
    dimension.set(cut, 1);
    const Own& own = cut.as<Own>();
    EXPECT_FALSE(own.self);
    EXPECT_EQ(own.l + own.m, 5);
    EXPECT_EQ(own.x_layout, attest::mha::Layout::tokens_first);
    EXPECT_EQ(own.memory_layout, attest::mha::Layout::tokens_first);  // as x, of which it was
    EXPECT_FALSE(engine::adds_option(p, cut));
    ops::Supports supports;
    supports.mha.cross = false;
    EXPECT_EQ(dimension.rungs(p, supports).least, 4) << "the subject takes no other memory";
    ++parted;
  }
  EXPECT_EQ(parted, 2);
  // A layout that no tokens had is not to be added.
  const Own plain = attest::mha::problem_from_text("b=2 l=4 m=4 self=1"),
            strided = attest::mha::problem_from_text("b=2 l=4 m=4 memory_layout=tokens_first");
  EXPECT_TRUE(engine::adds_option(plain, strided));
  // Memory of another length does not become x, which would lengthen one of them; memory of that length does.
  const ops::Field& self = *mha_op().find_field("self");
  EXPECT_TRUE(self.idle(attest::mha::problem_from_text("l=1 m=2"), 1));
  EXPECT_FALSE(self.idle(attest::mha::problem_from_text("l=2 m=2"), 1));
}

}  // namespace
}  // namespace attest::ops

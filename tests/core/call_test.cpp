// A call holds what its struct holds, and its rows say where.
#include "core/call.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/attention/call.hpp"
#include "core/edit.hpp"
#include "core/error.hpp"
#include "core/inputs.hpp"

namespace attest {
namespace {

const CallShape& shape() { return call_shape<attest_attention>(); }

const ScalarSlot& scalar(std::string_view name) { return *std::ranges::find(shape().scalars, name, &ScalarSlot::name); }

TEST(Call, IsFoundByNameAndNumber) {
  for (const CallShape* each : call_shapes()) {
    EXPECT_EQ(find_call_shape(each->op), each);
    EXPECT_EQ(find_call_shape(each->number), each);
  }
  EXPECT_EQ(find_call_shape("softmax"), nullptr);
  EXPECT_EQ(find_call_shape(std::uint32_t{99}), nullptr);
}

TEST(Call, RowsLieApart) {
  for (const CallShape* each : call_shapes()) {
    std::set<std::size_t> places, packed;
    std::size_t inputs = 0;
    for (const TensorSlot& slot : each->tensors) {
      EXPECT_TRUE(places.insert(slot.at).second) << slot.name;
      EXPECT_LE(slot.at + sizeof(attest_tensor), each->bytes) << slot.name;
      EXPECT_TRUE(slot.written() || &slot == &each->tensors[inputs++]) << slot.name << " stands behind an output";
    }
    for (const ScalarSlot& slot : each->scalars) {
      const bool in_flags = slot.kind == ScalarSlot::Kind::flag || slot.kind == ScalarSlot::Kind::bit;
      if (slot.kind != ScalarSlot::Kind::bit) {
        EXPECT_TRUE(places.insert(slot.at).second) << slot.name;
      }
      EXPECT_TRUE(packed.insert(in_flags ? 1000 + slot.packed : slot.packed).second) << slot.name;
      if (!in_flags) {
        EXPECT_LT(slot.packed, each->packed_bytes) << slot.name;
      }
    }
    EXPECT_TRUE(packed.insert(each->packed_form).second);
  }
}

TEST(Call, InputsAreThoseThatEditsName) {
  const auto names = edit_tensor_names();
  ASSERT_EQ(names.size(), Inputs::members.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(names[i], shape().tensors[i].name);
    EXPECT_EQ(edit_tensor_named(names[i]), static_cast<Edit::Tensor>(i));
  }
  EXPECT_EQ(edit_tensor_named("out"), std::nullopt);
}

TEST(Call, HoldsItsTensorsAndNumbers) {
  const Problem problem = problem_from_text(
      "b=2 hq=4 hkv=2 lq=3 lk=5 d=7 dv=6 dtype=f16 scale=0.75 softcap=3 causal=1 align=bottom_right window_left=4 "
      "keep=half lengths=ragged lse=f64 threads=2");
  const Inputs inputs = materialise(problem);
  const Tensor out = make_out(problem), lse = make_lse(problem);
  const Call call = inputs.call(out, lse);
  for (const TensorSlot& slot : shape().tensors) {
    const attest_tensor& tensor = call.tensor(slot);
    ASSERT_EQ(attest_present(&tensor) != 0, !slot.used || slot.used(problem)) << slot.name;
    const auto extents = extents_of(slot, problem);
    for (int axis = 0; axis < tensor.ndim; ++axis)
      EXPECT_EQ(tensor.shape[axis], extents[static_cast<std::size_t>(axis)]) << slot.name;
  }
  EXPECT_EQ(call.real(scalar("scale")), 0.75);
  EXPECT_EQ(call.integer(scalar("scale_is_default")), 0);
  EXPECT_EQ(call.real(scalar("softcap")), 3);
  EXPECT_EQ(call.integer(scalar("causal")), 1);
  EXPECT_EQ(call.integer(scalar("align")), ATTEST_BOTTOM_RIGHT);
  EXPECT_EQ(call.integer(scalar("window_left")), 4);
  EXPECT_EQ(call.integer(scalar("window_right")), -1);
  EXPECT_EQ(call.integer(scalar("threads")), 2);
  EXPECT_EQ(inputs.named().size(), 5u);  // no bias
}

TEST(Call, NumbersReadBack) {
  Call call(shape());
  EXPECT_EQ(call.as<attest_attention>().struct_size, sizeof(attest_attention));
  for (const ScalarSlot& slot : shape().scalars) {
    if (slot.kind == ScalarSlot::Kind::real) {
      call.set_real(slot, 0.5);
      EXPECT_EQ(call.real(slot), 0.5) << slot.name;
    } else {
      for (const std::int64_t value : {1, 0}) {
        call.set_integer(slot, value);
        EXPECT_EQ(call.integer(slot), value) << slot.name;
      }
    }
  }
}

}  // namespace
}  // namespace attest

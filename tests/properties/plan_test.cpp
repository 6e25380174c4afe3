// The laws that need no plan but that of the base call: `keeps_plan()` holds for exactly those.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "generators/domain.hpp"
#include "generators/draw.hpp"
#include "properties/property.hpp"
#include "properties/trial.hpp"
#include "tests/properties/fake.hpp"

namespace attest {
namespace {

using properties::Property;
using properties::Trial;

constexpr std::uint64_t problems = 400;
constexpr std::uintptr_t widest_alignment = 64;

std::string text_of(const attest_tensor& tensor) {
  if (!attest_present(&tensor)) return "-";
  std::string text = fmt::format("{}:{}:{}", tensor.dtype.code, tensor.dtype.bits,
                                 reinterpret_cast<std::uintptr_t>(tensor.data) % widest_alignment + tensor.byte_offset);
  for (int axis = 0; axis < tensor.ndim; ++axis)
    text += fmt::format(",{}/{}", tensor.shape[axis], tensor.strides[axis]);
  return text;
}

// All that a subject may plan for: everything but what tensors hold.
std::string plan_of(const attest_attention& call) {
  std::string text;
  for (const attest_tensor* tensor :
       {&call.q, &call.k, &call.v, &call.bias, &call.keep, &call.kv_lengths, &call.out, &call.lse})
    text += text_of(*tensor) + " ";
  return text + fmt::format("{} {} {} {} {} {} {} {} {}", call.flags, call.scale, call.softcap, call.causal, call.align,
                            call.window_left, call.window_right, call.threads, call.form ? call.form : "");
}

TEST(KeepsPlan, IsSaidOfLawsWhoseCallsDifferInContentsAlone) {
  std::map<std::string_view, std::string> other;  // per law, a problem for which it asked for another plan
  std::map<std::string_view, int> asked;
  Contract contract = test::promise(Format::f32);
  Supports supports;
  supports.forms = {{"mask", {"full", "1d"}}};
  const Domain domain(supports, {Format::f32});
  for (std::uint64_t number = 0; number < problems; ++number) {
    contract.batch_invariant = number % 2 ? BatchInvariance::bounded : BatchInvariance::bitwise;
    const Problem problem = draw_problem(domain, 29, number, 1, 60);
    std::vector<std::string> plans;
    test::Fake subject([&](const attest_attention& call) {
      plans.push_back(plan_of(call));
      test::attend(call);
    });
    subject.edit().supports = supports;
    Trial trial(problem, contract, subject);
    trial.base();
    const std::string base = plans.front();
    for (const Property& law : properties::properties()) {
      if (law.not_applicable(problem, contract, subject.info())) continue;
      plans.clear();
      const Verdict verdict = law.check(trial);
      asked[law.name] += verdict.kind != VerdictKind::skip;
      for (const std::string& plan : plans)
        if (plan != base) other.try_emplace(law.name, to_text(problem) + "\n" + base + "\n" + plan);
    }
  }
  for (const Property& law : properties::properties()) {
    if (law.name == "fused-equals-explicit") continue;  // asks the peer
    EXPECT_TRUE(law.base_call() || asked[law.name] > 0) << law.name;
    EXPECT_EQ(law.keeps_plan(), !other.contains(law.name)) << law.name << ": " << other[law.name];
  }
}

}  // namespace
}  // namespace attest

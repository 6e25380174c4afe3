// A property that needs no reference: a score is q.k times the scale, so that queries twice as large under half the
// scale give the same result. Doubling and halving are exact, unless a number leaves the range: to the bit.
#include <attest/attest.hpp>
#include <attest/rapidcheck.hpp>

#include <rapidcheck.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "../ctest/my_attention.hpp"

namespace {

std::vector<float> result(const attest::Attention& call, const float* q, double scale) {
  std::vector<float> out(static_cast<std::size_t>(call.batch() * call.heads() * call.queries() * call.value_width()));
  my_attention(q, call.k.as<const float>().data(), call.v.as<const float>().data(), out.data(),
               {call.batch(), call.heads(), call.queries(), call.keys(), call.width()}, static_cast<float>(scale),
               call.causal);
  return out;
}

}  // namespace

int main(int count, char** words) {
  const bool forgets_scale = count > 1 && std::string(words[1]) == "forgets-scale";
  // The problems that the kernel takes, as describe of docs/plugin.md says it; and numbers in the middle of their
  // range.
  const attest::generators::Domain domain(R"({"ops":["attention"], "dtypes":["f32"],
      "supports":{"align":["top_left"], "gqa":false, "bias":false, "keep":false, "kv_lengths":false, "window":false,
                  "softcap":false, "lse":false, "strides":"contiguous", "dims":{"dv":"=d"}}})",
                                          "values==normal && scale>1e-6 && scale<1e6");
  const bool held = rc::check("the scale may move into the queries", [&] {
    const auto problem = *attest::generators::problems(domain);
    const attest::generators::Call made(problem);
    const attest::Attention call(made.attention());
    const float* const q = call.q.as<const float>().data();
    std::vector<float> doubled(q, q + call.batch() * call.heads() * call.queries() * call.width());
    for (float& x : doubled) x *= 2;
    const double scale = forgets_scale ? 1 : call.scale, half = forgets_scale ? 1 : call.scale / 2;
    const auto once = result(call, q, scale), again = result(call, doubled.data(), half);
    RC_ASSERT(std::memcmp(once.data(), again.data(), once.size() * sizeof(float)) == 0);
  });
  return held ? 0 : 1;
}

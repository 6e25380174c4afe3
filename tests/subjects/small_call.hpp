#pragma once
#include <array>

#include "core/tensor.hpp"

namespace attest::testing {

// One query and two keys, poisoned output: enough to see whether a call arrived and came back.
struct SmallCall {
  Index width;
  Tensor q, k, v, out, lse;

  explicit SmallCall(Index width_ = 8, DType type = DType::f32)
      : width(width_),
        q(type, std::array<Index, 4>{1, 1, 1, width}),
        k(type, std::array<Index, 4>{1, 1, 2, width}),
        v(type, std::array<Index, 4>{1, 1, 2, width}),
        out(type, std::array<Index, 4>{1, 1, 1, width}) {
    for (Index d = 0; d < width; ++d) {
      q.set(0, 0, 0, d, 1);
      for (Index j = 0; j < 2; ++j) {
        k.set(0, 0, j, d, 0.5);
        v.set(0, 0, j, d, static_cast<double>(d + j));
      }
    }
    out.poison();
  }

  [[nodiscard]] attest_attention call() const {
    attest_attention call{};
    call.struct_size = sizeof call;
    call.q = q.view();
    call.k = k.view();
    call.v = v.view();
    call.out = out.view();
    call.lse = lse.view();
    call.scale = 0.5;
    call.window_left = call.window_right = -1;
    return call;
  }
};

}  // namespace attest::testing

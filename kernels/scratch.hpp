#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/arithmetic.hpp"

namespace attest::kernels {

// A thread's workspace, kept from call to call. take() hands out pieces of it in turn, each padded and from the start
// of a cache line on, since registers may be as long as one; contents are undefined.
template <class Real>
class Scratch {
 public:
  // Room for `elements` in all, in at most 16 pieces; everything handed out before is void. Throws std::bad_alloc.
  explicit Scratch(Index elements) {
    const Index room = elements + 17 * line;
    if (std::ssize(storage()) < room) storage().resize(static_cast<std::size_t>(room));
    const auto address = reinterpret_cast<std::uintptr_t>(storage().data());
    const std::uintptr_t past = address % line_bytes;
    next_ = storage().data() + (past == 0 ? 0 : (line_bytes - past) / sizeof(Real));
  }
  [[nodiscard]] Real* take(Index elements) noexcept {
    Real* piece = next_;
    next_ += (elements + line - 1) / line * line;
    return piece;
  }

 private:
  static constexpr std::uintptr_t line_bytes = 64;
  static constexpr Index line = line_bytes / sizeof(Real);  // at least `padding`

  static std::vector<Real>& storage() {
    thread_local std::vector<Real> kept;
    return kept;
  }
  Real* next_;
};

}  // namespace attest::kernels

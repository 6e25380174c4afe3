#pragma once
#include <cstddef>
#include <vector>

#include "kernels/arithmetic.hpp"

namespace attest::kernels {

// A thread's workspace, kept from call to call. take() hands out padded pieces of it in turn; contents are what was there.
template <class Real>
class Scratch {
 public:
  // Room for `elements` in all; everything handed out before is void. Throws std::bad_alloc.
  explicit Scratch(Index elements) {
    if (std::ssize(storage()) < elements) storage().resize(static_cast<std::size_t>(elements));
    next_ = storage().data();
  }
  [[nodiscard]] Real* take(Index elements) noexcept {
    Real* piece = next_;
    next_ += padded(elements);
    return piece;
  }

 private:
  static std::vector<Real>& storage() {
    thread_local std::vector<Real> kept;
    return kept;
  }
  Real* next_;
};

}  // namespace attest::kernels

#pragma once
#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <cstdint>
#endif

namespace attest::kernels {

// Makes the machine take subnormal numbers of this thread for zero and return zero for them, if `on`, as long as it
// lives. Elsewhere than on x86-64 and AArch64 it does nothing.
class FlushSubnormals {
 public:
#if defined(__SSE2__)
  explicit FlushSubnormals(bool on) noexcept : on_(on), before_(on ? _mm_getcsr() : 0) {
    if (on_) _mm_setcsr(before_ | 0x8040);  // flush-to-zero and denormals-are-zero
  }
  ~FlushSubnormals() {
    if (on_) _mm_setcsr((_mm_getcsr() & ~0x8040u) | (before_ & 0x8040u));
  }
#elif defined(__aarch64__)
  explicit FlushSubnormals(bool on) noexcept : on_(on) {
    if (!on_) return;
    asm volatile("mrs %0, fpcr" : "=r"(before_));
    asm volatile("msr fpcr, %0" : : "r"(before_ | std::uint64_t{1} << 24));
  }
  ~FlushSubnormals() {
    if (on_) asm volatile("msr fpcr, %0" : : "r"(before_));
  }
#else
  explicit FlushSubnormals(bool) noexcept {}
#endif
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
#if defined(__SSE2__)
  bool on_;
  unsigned before_;
#elif defined(__aarch64__)
  bool on_;
  std::uint64_t before_ = 0;
#endif
};

}  // namespace attest::kernels

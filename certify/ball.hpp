#pragma once
#include <cstdint>
#include <limits>
#include <string>

#if __has_include(<arb.h>)
#include <arb.h>
#else
#include <flint/arb.h>  // from FLINT 3 on
#endif

namespace attest::certify {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

// The bits in which balls of this thread are computed while it lives.
class Precision {
 public:
  explicit Precision(std::int64_t bits) noexcept;
  ~Precision();
  Precision(const Precision&) = delete;
  Precision& operator=(const Precision&) = delete;

 private:
  std::int64_t before_;
};
std::int64_t working_bits() noexcept;

// A real number known to lie within a radius of a midpoint (arb_t). An operation returns a ball that holds every result
// of numbers in its arguments. Doubles and integers are exact.
class Ball {
 public:
  Ball() { arb_init(x_); }
  Ball(double value) : Ball() { arb_set_d(x_, value); }
  Ball(int value) : Ball() { arb_set_si(x_, value); }
  Ball(std::int64_t value) : Ball() { arb_set_si(x_, value); }
  Ball(const Ball& other) : Ball() { arb_set(x_, other.x_); }
  Ball(Ball&& other) noexcept : Ball() { arb_swap(x_, other.x_); }
  Ball& operator=(Ball other) noexcept {
    arb_swap(x_, other.x_);
    return *this;
  }
  ~Ball() { arb_clear(x_); }

  [[nodiscard]] const arb_struct* get() const noexcept { return x_; }
  arb_struct* get() noexcept { return x_; }
  [[nodiscard]] bool is_finite() const noexcept { return arb_is_finite(x_) != 0; }
  // `digits` decimal digits of the midpoint, fewer if the radius is larger than that; "unbounded" if not finite.
  [[nodiscard]] std::string text(int digits = 20) const;

  Ball& operator+=(const Ball& other);
  Ball& operator*=(const Ball& other);

 private:
  arb_t x_;
};

Ball operator+(const Ball& a, const Ball& b);
Ball operator-(const Ball& a, const Ball& b);
Ball operator*(const Ball& a, const Ball& b);
Ball operator/(const Ball& a, const Ball& b);
Ball operator-(const Ball& a);

Ball abs(const Ball& x);
Ball sqrt(const Ball& x);
Ball exp(const Ball& x);
Ball expm1(const Ball& x);
Ball log(const Ball& x);
Ball log1p(const Ball& x);
Ball tanh(const Ball& x);
Ball max(const Ball& a, const Ball& b);
Ball min(const Ball& a, const Ball& b);
// Returns that of two upper bounds of one number with the smaller upper end. One of them may be out of Arb's range.
Ball tighter(const Ball& a, const Ball& b);

// Tells whether a < b for every number in the balls; false where a ball is not finite.
bool certainly_less(const Ball& a, const Ball& b);
// Tells whether some number of x may be `threshold` or more: what a permission asks, so that doubt permits.
inline bool may_reach(const Ball& x, const Ball& threshold) { return !certainly_less(x, threshold); }

// E(k, u) of docs/bounds.md, section 0: what k roundings of relative size u can do to a product.
Ball compounded(const Ball& k, const Ball& u);

// "Arb 2.23.0 on FLINT 2.9.0", as linked.
std::string library_version();

}  // namespace attest::certify

#include "certify/ball.hpp"

#include <flint/flint.h>

namespace attest::certify {
namespace {

thread_local std::int64_t bits = 256;

using Unary = void (*)(arb_t, const arb_t, slong);
using Binary = void (*)(arb_t, const arb_t, const arb_t, slong);

Ball apply(Unary function, const Ball& x) {
  Ball result;
  function(result.get(), x.get(), bits);
  return result;
}
Ball apply(Binary function, const Ball& a, const Ball& b) {
  Ball result;
  function(result.get(), a.get(), b.get(), bits);
  return result;
}

}  // namespace

Precision::Precision(std::int64_t wanted) noexcept : before_(bits) { bits = wanted; }
Precision::~Precision() { bits = before_; }
std::int64_t working_bits() noexcept { return bits; }

Ball& Ball::operator+=(const Ball& other) {
  arb_add(x_, x_, other.x_, bits);
  return *this;
}
Ball& Ball::operator*=(const Ball& other) {
  arb_mul(x_, x_, other.x_, bits);
  return *this;
}

Ball operator+(const Ball& a, const Ball& b) { return apply(arb_add, a, b); }
Ball operator-(const Ball& a, const Ball& b) { return apply(arb_sub, a, b); }
Ball operator*(const Ball& a, const Ball& b) { return apply(arb_mul, a, b); }
Ball operator/(const Ball& a, const Ball& b) { return apply(arb_div, a, b); }
Ball operator-(const Ball& a) { return 0 - a; }

Ball abs(const Ball& x) {
  Ball result;
  arb_abs(result.get(), x.get());
  return result;
}
Ball sqrt(const Ball& x) { return apply(arb_sqrt, x); }
Ball exp(const Ball& x) { return apply(arb_exp, x); }
Ball expm1(const Ball& x) { return apply(arb_expm1, x); }
Ball log(const Ball& x) { return apply(arb_log, x); }
Ball log1p(const Ball& x) { return apply(arb_log1p, x); }
Ball tanh(const Ball& x) { return apply(arb_tanh, x); }
Ball max(const Ball& a, const Ball& b) { return apply(arb_max, a, b); }
Ball min(const Ball& a, const Ball& b) { return apply(arb_min, a, b); }
Ball tighter(const Ball& a, const Ball& b) {
  if (!a.is_finite() || !b.is_finite()) return a.is_finite() ? a : b;
  arf_t top_a, top_b;
  arf_init(top_a);
  arf_init(top_b);
  arb_get_ubound_arf(top_a, a.get(), bits);
  arb_get_ubound_arf(top_b, b.get(), bits);
  const bool first = arf_cmp(top_a, top_b) <= 0;
  arf_clear(top_a);
  arf_clear(top_b);
  return first ? a : b;
}

bool certainly_less(const Ball& a, const Ball& b) { return arb_lt(a.get(), b.get()) != 0; }

Ball compounded(const Ball& k, const Ball& u) { return expm1(k * u * (1 + u)); }

std::string Ball::text(int digits) const {
  if (!is_finite()) return "unbounded";
  char* const made = arb_get_str(x_, digits, ARB_STR_NO_RADIUS);
  std::string result(made);
  flint_free(made);
  return result;
}

std::string library_version() { return std::string("Arb ") + arb_version + " on FLINT " + flint_version; }

}  // namespace attest::certify

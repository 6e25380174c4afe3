#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "core/tensor.hpp"

// One tensor of a call with other contents: what the laws named other-* are made of, of any operation.
namespace attest::properties {

// The contents of the tensor in the call that a law makes beside the problem's own.
enum class Change : std::uint8_t {
  all,      // the contents that another seed draws
  one,      // its own contents, but for the sign of one element
  swapped,  // its own contents, two rows (elements, of a vector) in each other's place: no sum over it changes
};

// One of the three by a random number, `all` half of the time.
Change drawn_change(std::uint64_t random) noexcept;

// Turns `donor`, of the same shape and type, into the new contents of `own`. A change that leaves all as it is gives
// way to `one`; false where there is no element.
bool make_other(const attest_tensor& own, const attest_tensor& donor, Change change, std::uint64_t random);

// True if two tensors of one shape and type hold the same bits.
bool same_contents(const attest_tensor& a, const attest_tensor& b) noexcept;

// Exchanges the contents of two tensors of one shape and type until its end. Addresses stay, so that a call sees the
// same buffers: of all that a subject may have kept from an earlier call, the contents of this one tensor alone no
// longer fit.
class Exchanged {
 public:
  Exchanged(const attest_tensor& a, const attest_tensor& b) noexcept;
  ~Exchanged();
  Exchanged(const Exchanged&) = delete;
  Exchanged& operator=(const Exchanged&) = delete;

 private:
  const attest_tensor a_, b_;
};

// The evidence's note: "with other values in k alone", and that a result has the bits of the base call, if it has.
std::string with_other(std::string_view tensor, bool as_before);

}  // namespace attest::properties

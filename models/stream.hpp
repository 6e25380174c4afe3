#pragma once
#include "models/effort.hpp"

namespace attest::models {

// The problems of a campaign: most of them small, every fourth one large. Half of them have a sequence of 16 tokens or
// more, of which fusions and blocks of kernels make something, and a tenth one of 64, however large the model is.
class Stream {
 public:
  // `family` must live as long. `largest`: as effort_for().
  Stream(const graph::Family& family, std::uint64_t seed, Index largest)
      : family_(family), seed_(seed), effort_(effort_for(family, largest)) {}
  [[nodiscard]] const graph::Family& family() const noexcept { return family_; }
  [[nodiscard]] graph::Problem problem(std::uint64_t number) const;

 private:
  const graph::Family& family_;
  std::uint64_t seed_;
  Effort effort_;
};

}  // namespace attest::models

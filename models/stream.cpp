#include "models/stream.hpp"

namespace attest::models {

graph::Problem Stream::problem(std::uint64_t number) const {
  constexpr std::uint64_t large_every = 4;
  return family_.draw(seed_, number, number % large_every == large_every - 1 ? effort_.large : effort_.small);
}

}  // namespace attest::models

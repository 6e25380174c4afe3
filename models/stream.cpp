#include "models/stream.hpp"

namespace attest::models {

graph::Problem Stream::problem(std::uint64_t number) const {
  constexpr std::uint64_t large_every = 4, long_every = 10;
  const Index at_least = number % long_every == long_every - 1 ? 64 : number % 2 == 1 ? 16 : 1;
  return family_.draw(seed_, number, number % large_every == large_every - 1 ? effort_.large : effort_.small, at_least);
}

}  // namespace attest::models

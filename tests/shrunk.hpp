#pragma once

namespace attest::test {

// The end of RapidCheck's shrinking: the first candidate that still fails, again and again.
template <class Shrinkable, class Fails>
Shrinkable shrunk(Shrinkable at, const Fails& fails) {
  auto candidates = at.shrinks();
  while (const auto next = candidates.next())
    if (fails(next->value())) {
      at = *next;
      candidates = at.shrinks();
    }
  return at;
}

}  // namespace attest::test

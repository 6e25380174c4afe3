#include "engine/instance.hpp"

#include <algorithm>

namespace attest::engine {

void Instance::asked(const Problem& problem, std::span<const std::size_t> laws) {
  const std::size_t slot = now_ % most_kept;
  if (ring_.size() <= slot) ring_.resize(slot + 1);
  ring_[slot].problem = problem;
  ring_[slot].laws.assign(laws.begin(), laws.end());
  ++now_;
}

void Instance::started() { start_ = now_; }

std::vector<Asked> Instance::before(Mark mark, std::size_t most) const {
  const std::uint64_t kept = now_ > most_kept ? now_ - most_kept : 0, wanted = mark.now > most ? mark.now - most : 0;
  std::vector<Asked> calls;
  for (std::uint64_t n = std::max({mark.start, kept, wanted}); n < mark.now; ++n) calls.push_back(ring_[n % most_kept]);
  return calls;
}

Instance& Instance::peer() {
  if (!peer_) peer_ = std::make_unique<Instance>();
  return *peer_;
}

Bench Station::bench() {
  if (!subject_) subject_ = factory_->open();
  if (!peer_ && peer_factory_) peer_ = peer_factory_->open();
  return {*subject_, peer_.get(), instance_.get(), nullptr, compares_};
}

}  // namespace attest::engine

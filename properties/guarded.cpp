#include "properties/guarded.hpp"

#include <array>
#include <cstring>
#include <limits>

#include "properties/nonfinite.hpp"

namespace attest::properties {
namespace {

Evidence memory_evidence(std::string tensor, std::string note) {
  Evidence evidence;
  evidence.tensor = std::move(tensor);
  evidence.ratio = std::numeric_limits<double>::infinity();
  evidence.wrong = Wrong::memory;
  evidence.note = std::move(note);
  return evidence;
}

std::size_t bytes_in(const Tensor& tensor) {
  const MemoryParts parts = tensor.parts();
  return parts.count * parts.size;
}

constexpr std::size_t most_kept = std::size_t{1} << 26;
constexpr std::size_t least_hashed = std::size_t{1}
                                     << 24;  // bytes: a hash is a pass over memory in place of two, and half of that

// Hashes eight words at a time, each in a lane of its own, every step of which is a bijection: a change of one word
// always shows, any other but with a chance of 2^-64.
std::uint64_t hash_of(std::span<const std::byte> bytes) {
  constexpr std::size_t lanes = 8, step = lanes * sizeof(std::uint64_t);
  std::array<std::uint64_t, lanes> state{1, 2, 3, 4, 5, 6, 7, 8}, words{};
  const auto take = [&](const std::byte* from, std::size_t count) {
    std::memcpy(words.data(), from, count);
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      state[lane] = (state[lane] ^ words[lane]) * 0x9E3779B97F4A7C15u;
      state[lane] ^= state[lane] >> 29;
    }
  };
  std::size_t at = 0;
  for (; at + step <= bytes.size(); at += step) take(bytes.data() + at, step);
  words = {};
  take(bytes.data() + at, bytes.size() - at);
  std::uint64_t hash = bytes.size();
  for (const std::uint64_t lane : state) hash = extend(hash, lane);
  return hash;
}

std::uint64_t hash_of(const Tensor& tensor) {
  const MemoryParts parts = tensor.parts();
  std::uint64_t hash = 0;
  for (std::size_t n = 0; n < parts.count; ++n) hash = extend(hash, hash_of(parts.part(n)));
  return hash;
}

// One buffer a thread, since a campaign makes many short trips.
thread_local std::unique_ptr<std::byte[]> buffer;
thread_local std::size_t capacity = 0;

}  // namespace

std::optional<Evidence> output_violation(const Tensor& tensor, const char* name, bool finite) {
  if (!tensor.present()) return std::nullopt;
  switch (tensor.damage()) {
    case Tensor::Damage::none:
      break;
    case Tensor::Damage::before:
      return memory_evidence(name, std::string("bytes before ") + name + " were written");
    case Tensor::Damage::after:
      return memory_evidence(name, std::string("bytes after ") + name + " were written");
    case Tensor::Damage::gap:
      return memory_evidence(name, std::string("bytes between the rows or elements of ") + name + " were written");
  }
  std::optional<Evidence> unwritten;
  if (finite) return unwritten;
  for_each_nan(tensor, [&](std::array<Index, 4> index) {  // as an element that was never written is
    if (!tensor.is_poison(index[0], index[1], index[2], index[3])) return true;
    unwritten = memory_evidence(name, std::string("this element of ") + name + " was never written");
    unwritten->index = index;
    unwritten->got = std::numeric_limits<double>::quiet_NaN();
    return false;
  });
  return unwritten;
}

std::optional<std::size_t> Snapshot::redrawn_member(const Tensor& tensor) const {
  if (redrawn_ == nullptr || bytes_in(tensor) < least_hashed) return std::nullopt;
  for (std::size_t n = 0; n < Inputs::members.size(); ++n)
    if (&(redrawn_->inputs.*Inputs::members[n]) == &tensor) return n;
  return std::nullopt;
}

Snapshot::Snapshot(std::span<const std::vector<Inputs::Named>> calls, const Redrawn* redrawn) : redrawn_(redrawn) {
  std::size_t bytes = 0;
  for (const auto& inputs : calls)
    for (const auto& [name, tensor] : inputs) bytes += redrawn_member(tensor) ? 0 : bytes_in(tensor);
  if (bytes > capacity) buffer = std::make_unique_for_overwrite<std::byte[]>(capacity = bytes);
  std::byte* to = buffer.get();
  for (const auto& inputs : calls)
    for (const auto& [name, tensor] : inputs) {
      if (redrawn_member(tensor)) {
        hashes_.push_back(hash_of(tensor));
        continue;
      }
      const MemoryParts now = tensor.parts();
      for (std::size_t n = 0; n < now.count; ++n, to += now.size) std::memcpy(to, now.part(n).data(), now.size);
    }
  next_ = buffer.get();
}

Snapshot::~Snapshot() {
  if (capacity > most_kept) buffer.reset(), capacity = 0;
}

std::optional<Evidence> Snapshot::restore(std::span<const Inputs::Named> inputs) {
  std::optional<Evidence> first;
  const auto modified = [&first](std::string_view name) {
    if (!first) first = memory_evidence(std::string(name), "the input " + std::string(name) + " was modified");
  };
  for (const auto& [name, tensor] : inputs) {
    const MemoryParts now = tensor.parts();
    if (const auto member = redrawn_member(tensor)) {
      if (hash_of(tensor) == hashes_[next_hash_++]) continue;
      modified(name);
      const Inputs again = redrawn_->again();
      const MemoryParts was = (again.*Inputs::members[*member]).parts();
      for (std::size_t n = 0; n < now.count; ++n) std::memcpy(now.part(n).data(), was.part(n).data(), now.size);
      continue;
    }
    for (std::size_t n = 0; n < now.count; ++n, next_ += now.size) {
      std::byte* part = now.part(n).data();
      if (std::memcmp(part, next_, now.size) == 0) continue;
      modified(name);
      std::memcpy(part, next_, now.size);
    }
  }
  return first;
}

}  // namespace attest::properties

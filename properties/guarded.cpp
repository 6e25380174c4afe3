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

// One buffer a thread, since a campaign makes many short trips.
thread_local std::unique_ptr<std::byte[]> buffer;
thread_local std::size_t capacity = 0;

}  // namespace

std::optional<Evidence> output_violation(const Tensor& tensor, const char* name) {
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
  for_each_nonfinite(tensor, [&](std::array<Index, 4> index) {
    if (!tensor.is_poison(index[0], index[1], index[2], index[3])) return true;
    unwritten = memory_evidence(name, std::string("this element of ") + name + " was never written");
    unwritten->index = index;
    unwritten->got = std::numeric_limits<double>::quiet_NaN();
    return false;
  });
  return unwritten;
}

Snapshot::Snapshot(std::span<const std::vector<Inputs::Named>> calls) {
  std::size_t bytes = 0;
  for (const auto& inputs : calls)
    for (const auto& [name, tensor] : inputs) bytes += bytes_in(tensor);
  if (bytes > capacity) buffer = std::make_unique_for_overwrite<std::byte[]>(capacity = bytes);
  std::byte* to = buffer.get();
  for (const auto& inputs : calls)
    for (const auto& [name, tensor] : inputs) {
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
  for (const auto& [name, tensor] : inputs) {
    const MemoryParts now = tensor.parts();
    for (std::size_t n = 0; n < now.count; ++n, next_ += now.size) {
      std::byte* part = now.part(n).data();
      if (std::memcmp(part, next_, now.size) == 0) continue;
      if (!first) first = memory_evidence(std::string(name), "the input " + std::string(name) + " was modified");
      std::memcpy(part, next_, now.size);
    }
  }
  return first;
}

}  // namespace attest::properties

#pragma once
#include <array>
#include <cstddef>
#include <string_view>

#include "core/format.hpp"

namespace attest {

// The precision contract of an operation: one number format for each of its stages.
template <class Stage, std::size_t Count>
class StagePolicy {
 public:
  // Every stage in `format`.
  explicit StagePolicy(Format format = Format::f32) noexcept { formats_.fill(format); }

  [[nodiscard]] Format operator[](Stage stage) const noexcept { return formats_[static_cast<std::size_t>(stage)]; }
  StagePolicy& set(Stage stage, Format format) noexcept {
    formats_[static_cast<std::size_t>(stage)] = format;
    return *this;
  }
  friend bool operator==(const StagePolicy&, const StagePolicy&) = default;

 private:
  std::array<Format, Count> formats_{};
};

template <class Policy>
struct NamedStagePolicy {
  std::string_view name;
  Policy policy;
  std::string_view doc;
};

}  // namespace attest

#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "core/policy.hpp"
#include "core/problem.hpp"
#include "core/verdict.hpp"
#include "engine/ops.hpp"

namespace attest::engine {

// The results of a campaign under one policy. Conforming kernels leave one in a hundred above t99; a kernel whose errors are
// all a little too large leaves many, though no single result is beyond its threshold. A warning, which fails nothing.
struct Drift {
  std::int64_t results = 0, above = 0;
  double permitted = 1;  // share of them
  double worst = 0;      // the largest T / t99, and its problem
  std::string problem{};

  void add(const Aggregate& aggregate, const Problem& of);
  // How the share differs from what is permitted; nullopt if it does not, or if the results are too few to say.
  [[nodiscard]] std::optional<Evidence> evidence() const;
};

using DriftByPolicy = std::map<std::string, Drift>;
nlohmann::ordered_json to_json(const DriftByPolicy& drift);
// Throws nlohmann::json::exception.
DriftByPolicy drift_from_json(const nlohmann::json& object);

}  // namespace attest::engine

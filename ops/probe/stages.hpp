#pragma once
#include <span>
#include <vector>

#include "ops/probe/questions.hpp"
#include "ops/probe/shown.hpp"

// Asks what each stage is computed in.
namespace attest::ops::probing {

// Plain kernels of an operation, by which answers outside the bound are laid to a stage.
class Model {
 public:
  Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  virtual ~Model() = default;

  // The number of schemes that keep a policy and are worth telling apart.
  [[nodiscard]] virtual std::size_t schemes() const noexcept = 0;
  // Returns the result of such a kernel. An implementation keeps its own copy of anything in the problem that it needs
  // later.
  [[nodiscard]] virtual Elements run(const Problem& problem, const Policy& policy, std::size_t scheme) const = 0;
  // The formats that a stage may have, the widest first.
  [[nodiscard]] virtual std::span<const Format> formats(std::size_t stage) const noexcept = 0;
};

// The widest format that calls tell of a stage.
constexpr Format widest_told(Format dtype) noexcept { return dtype == Format::f64 ? Format::f64 : Format::f32; }

// The rows of stages, and the contract with those stages as narrow as they were found.
struct StageRows {
  std::vector<ProbeRow> rows;
  Contract permitting;
  bool guilty = false;  // a stage is narrower than promised
};
StageRows stage_rows(const Asked& asked, const std::vector<StageQuestions>& questions, const Model& model);

// The formats that the same questions exclude of the stages for which `asks` holds, and the bits of their sums: rows
// without a promise, an example or a verdict. After a call that ended its instance nothing more is asked, or told.
std::vector<ProbeRow> kept_rows(const ProbeTarget& target, const std::vector<StageQuestions>& questions,
                                const Model& model, const AsksStage& asks);

}  // namespace attest::ops::probing

#pragma once
#include <span>
#include <string>
#include <vector>

#include "ops/layer_norm/probe/ask.hpp"
#include "ops/probe/meaning.hpp"
#include "ops/probe/narrow.hpp"
#include "ops/probe/stages.hpp"

namespace attest::ops::of_layer_norm {

using probing::held_row;
using probing::Meaning;
using probing::refused_row;
using probing::row_of;
using probing::Shown;
using probing::untold;

// A question: the subject that is asked, and the contract that its answers are held to.
struct Asking {
  probing::Asked asked;
  const Contract& contract;
  Maker maker, further;  // makers of one row, and of many
};

// The formats that a stage may have: no stage here is tf32.
std::span<const Format> formats() noexcept;

// questions.cpp: the questions that the law narrow-stage may ask of a problem like the drawn one, under the contract,
// all of which must outlive them; and a drawn problem in widths that are people's.
std::vector<probing::NarrowQuestion> narrow_questions(const Maker& maker, const Contract& contract, std::uint64_t key);
Problem at_usual_sizes(Problem problem, const Supports& supports, std::uint64_t key);
// The questions about every stage but storage, in their order.
std::vector<probing::StageQuestions> stage_questions(const Maker& maker, const Maker& further);
// numbers.cpp: the variance, the root, roundings, subnormal numbers. meaning.cpp: the meaning of options.
std::vector<ProbeRow> number_rows(const Asking& asking);
ProbeRow variance_row(const Asking& asking);  // one of these
std::vector<ProbeRow> meaning_rows(const Asking& asking);

// model.cpp: plain kernels that make the variance as `how` says, one by one and in lanes.
class PlainLayerNorm final : public probing::Model {
 public:
  explicit PlainLayerNorm(const attest::layer_norm::Arithmetic& how) : how_(how) {}
  [[nodiscard]] std::size_t schemes() const noexcept override { return 2; }
  [[nodiscard]] probing::Elements run(const ops::Problem& problem, const ops::Policy& policy,
                                      std::size_t scheme) const override;
  [[nodiscard]] std::span<const Format> formats(std::size_t) const noexcept override {
    return of_layer_norm::formats();
  }

 private:
  const attest::layer_norm::Arithmetic& how_;
};

}  // namespace attest::ops::of_layer_norm

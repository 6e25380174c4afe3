#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/contract.hpp"
#include "core/problem.hpp"
#include "ops/attention/probe/ask.hpp"
#include "ops/attention/probe/questions.hpp"
#include "ops/probe/meaning.hpp"
#include "ops/probe/questions.hpp"
#include "ops/probe/stages.hpp"

// The parts of a probe of attention. A block's (ops/mha/probe) asks them of the attention in its middle.
namespace attest::ops::of_attention {

using probing::held_row;
using probing::Meaning;
using probing::refused_row;
using probing::row_of;
using probing::untold;

// A question: the subject that is asked, and the contract of attention that its answers are held to.
struct Asking {
  probing::Asked asked;
  const Contract& contract;  // attention's, which rows promise
  const Way& way;
  Maker maker, further;  // makers of the smallest sizes, and of others

  [[nodiscard]] Shown ask(const Problem& problem) const;
};

// stages.cpp: the questions about every stage but storage, as its subject is asked them.
std::vector<probing::StageQuestions> asked_stages(const Asking& asking);
std::span<const Format> formats_of(Stage stage) noexcept;
// numbers.cpp: rounding of output and sums, blocks, exp2, the place of the scale, flush to zero.
std::vector<ProbeRow> number_rows(const Asking& asking, const std::vector<ProbeRow>& stages);
// masks.cpp: which keys take part, and what a row without any returns. meaning.cpp: scale, softcap, heads, log-sum-exp,
// NaN.
std::vector<ProbeRow> mask_rows(const Asking& asking);
std::vector<ProbeRow> meaning_rows(const Asking& asking);
// sum_order.cpp: the order in which the weighted values of the last row are added. `call`: that of its sizes and
// options; nullptr: three of `keys` keys.
std::vector<SumOrder> sum_orders(const ProbeTarget& target, Index keys, const Problem* call);
// probes.cpp: writes the meanings that the rows of masks and meanings show into a contract of attention.
void take_meanings(Contract& contract, const std::vector<ProbeRow>& rows);
// The contract with a policy that is wider, as far as the rows exclude what is narrower, and numbers that a kernel may
// need there that keeps it in a narrow one; nullopt where it declares numbers that say more.
std::optional<Contract> narrowed(const Contract& generous, const std::vector<ProbeRow>& rows);
// Tells whether it looks at the stage.
bool is_narrowed(std::size_t stage) noexcept;

}  // namespace attest::ops::of_attention

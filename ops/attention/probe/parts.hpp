#pragma once
#include <string>
#include <vector>

#include "core/contract.hpp"
#include "core/problem.hpp"
#include "core/subject.hpp"
#include "ops/attention/probe/ask.hpp"
#include "ops/probe.hpp"

namespace attest::ops::of_attention {

// What is asked, of whom, and what it is held to.
struct Asking {
  Subject& subject;
  const Contract& contract;
  bool policy_declared;
  Maker maker, further;  // of the least sizes, and of others
  bool meaning = false;  // what no narrower format would permit either is asked
  bool guilty = false;   // what lies outside the bound is told already

  [[nodiscard]] Shown ask(const Problem& problem) const;
};

// A row of a call that was not done, or none of whose answers helps.
ProbeRow refused_row(std::string stage, std::string promised, const Shown& shown);
// A row of what one call shows: contradicting if no kernel of the contract returns it.
ProbeRow row_of(std::string stage, std::string promised, std::string observed, const Shown& shown, Standing standing);

// stages.cpp: formats. numbers.cpp: rounding of output and sums, blocks, exp2, the place of the scale, flush to zero.
// What the rows of stages say, and the contract with those stages as narrow as they were found.
struct StageRows {
  std::vector<ProbeRow> rows;
  Contract permitting;
  bool guilty = false;  // a stage is narrower than promised
};
StageRows stage_rows(const Asking& asking);
std::vector<ProbeRow> number_rows(const Asking& asking, const std::vector<ProbeRow>& stages);
// masks.cpp: which keys take part, and what a row without any returns. meaning.cpp: scale, softcap, heads, log-sum-exp, NaN.
std::vector<ProbeRow> mask_rows(const Asking& asking);
std::vector<ProbeRow> meaning_rows(const Asking& asking);

}  // namespace attest::ops::of_attention

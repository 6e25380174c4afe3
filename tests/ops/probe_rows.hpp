#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "ops/op.hpp"
#include "ops/probe.hpp"

// The expectations of tests of probes about rows, whatever the operation.
namespace attest::test {

using ops::ProbeRow;
using ops::Standing;

inline std::string told(const ProbeRow& row) {
  return row.stage + ": promised " + row.promised + ", observed " + row.observed + " (" + row.note + ")" +
         (row.evidence ? "\n" + to_text(*row.evidence) : "");
}

inline void expect_nothing_broken(const std::vector<ProbeRow>& rows, const std::string& what) {
  for (const ProbeRow& row : rows) EXPECT_NE(row.standing, Standing::contradicts) << what << ": " << told(row);
}

// No row says that a stage is at least a format that holds more than what the kernel computes it in.
inline void expect_no_wider(const std::vector<ProbeRow>& rows, const ops::Contract& real, const std::string& what) {
  const ops::Op& op = real.op();
  for (const ProbeRow& row : rows)
    if (row.of_stage && row.at_least) {
      EXPECT_TRUE(ops::holds(op.stage(op.policy(real), *row.of_stage), *row.at_least)) << what << ": " << told(row);
    }
}

// The stage is told, and no other row contradicts anything; or, of what cannot be told, no row does.
inline void expect_blamed(const std::vector<ProbeRow>& rows, std::size_t stage, const std::string& what,
                          bool undetectable) {
  bool is_told = false, alone = true;
  std::string accused, others;
  for (const ProbeRow& row : rows) {
    if (row.standing == Standing::contradicts) {
      is_told = is_told || row.of_stage == stage;
      alone = alone && row.of_stage == stage;
      accused += row.stage + ", ";
    }
    if (row.standing != Standing::agrees) others += "\n  " + row.stage + ": " + row.observed;
  }
  if (undetectable)
    EXPECT_FALSE(is_told) << what << " is told by now: take it from the list";
  else
    EXPECT_TRUE(is_told && alone) << what << " is told in: " << accused << others;
}

// `observed`: empty if whatever is observed there will do.
inline void expect_row(const std::vector<ProbeRow>& rows, std::string_view stage, std::string_view observed,
                       Standing standing, const std::string& what) {
  const auto row = std::ranges::find(rows, stage, &ProbeRow::stage);
  ASSERT_NE(row, rows.end()) << what << " has no row " << stage;
  EXPECT_EQ(row->standing, standing) << what << ": " << told(*row);
  if (!observed.empty()) {
    EXPECT_EQ(row->observed, observed) << what << ": " << told(*row);
  }
}

}  // namespace attest::test

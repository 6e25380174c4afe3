// Measures, on example rows, how much the contract of a subject that declares no policy can fail. It takes some
// hundredths of a second.
#include <algorithm>
#include <array>
#include <span>

#include <fmt/format.h>

#include "ops/attention/parts.hpp"
#include "oracle/attention.hpp"
#include "oracle/outcome.hpp"

namespace attest::ops::of_attention {
namespace {

// Rows as models in use have them: q, k and v of normal numbers, heads of 64, and so many keys.
constexpr std::array<Index, 7> lengths{64, 128, 256, 512, 1024, 2048, 4096};
constexpr Index columns = 8;

struct UsualRow {
  Problem problem;
  Inputs inputs;
};

// Tells whether some finite number is outside what the contract permits of an element, and not far outside alone.
bool can_fail(const Contract& contract, const UsualRow& row) {
  oracle::AttentionOracle oracle(contract, row.problem, row.inputs);
  for (Index column = 0; column < columns; ++column) {
    const oracle::Enclosure e = oracle.out_enclosure(0, 0, 0, column);
    if (!e.undetermined && !oracle::is_wide(e)) return true;
  }
  return false;
}

}  // namespace

std::string undeclared_reach(const SubjectInfo& info) {
  std::string text;
  for (const Format dtype : info.dtypes) {
    if (precision(dtype) >= precision(Format::f32)) continue;
    std::vector<UsualRow> rows;
    for (const Index keys : lengths) {
      Problem problem;
      problem.b = problem.hq = problem.hkv = problem.lq = 1;
      problem.lk = keys;
      problem.d = 64;
      problem.dv = columns;
      problem.dtype = dtype;
      Inputs inputs = materialise(problem);
      rows.push_back({problem, std::move(inputs)});
    }
    const auto share = [&](const Contract& contract) {
      return std::ranges::count_if(rows, [&](const UsualRow& row) { return can_fail(contract, row); });
    };
    const Contract reading = info.contract(dtype);
    Contract in_tiles = reading, sharper = reading;
    in_tiles.arithmetic.kv_tile_min = std::max<Index>(in_tiles.arithmetic.kv_tile_min, 64);
    sharper.policy = policy_from_text(name(dtype));
    text += fmt::format(
        "  {} can fail {} of {} rows of 64 to 4,096 keys (normal numbers, heads of 64), elsewhere its intervals are "
        "wider than the "
        "values; with kv_tile_min=64 {}, with --policy {} {}\n",
        to_text(reading.policy), share(reading), lengths.size(), share(in_tiles), name(dtype), share(sharper));
  }
  return text;
}

}  // namespace attest::ops::of_attention

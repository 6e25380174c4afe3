#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/problem.hpp"
#include "oracle/judged_rows.hpp"
#include "oracle/lanes.hpp"
#include "oracle/quick.hpp"
#include "oracle/short_rule.hpp"

namespace attest::oracle {

// Level 1 for rows of few keys, many beside each other. It settles whole blocks, as Quick takes them: where it leaves a
// row of a block open, Quick looks at all of that block.
class ShortRows {
 public:
  // Tells whether so many rows of `call` may be settled.
  static bool speaks_of(const Quick& quick, const Call& call, std::size_t rows);
  // Requires speaks_of(). Keeps references to `quick`, which is of `call`, and to the views, which are those of a
  // Tensor.
  ShortRows(Quick& quick, const Call& call, Format out_format, const attest_tensor& out, const attest_tensor& lse);

  // False once hardly a block was settled.
  [[nodiscard]] bool speaks() const noexcept { return speaks_; }
  // Tells whether it settles the block that begins with rows[next]. Rows that masks leave empty are left to the caller,
  // if it `knows_empty` rows of finite heads.
  bool settles(const Problem& problem, const JudgedRows& rows, std::size_t next, bool knows_empty);

  // Members of the block asked about last.
  [[nodiscard]] std::span<const RowIndex> rows() const noexcept {
    return std::span(at_).subspan(static_cast<std::size_t>(block().first), static_cast<std::size_t>(block().count));
  }
  [[nodiscard]] bool is_empty(Index n) const noexcept { return bit(empty_, block().first + n); }

 private:
  static constexpr Index most_rows = 64;
  using Bits = std::array<std::uint8_t, most_rows / lane_count>;
  struct Block {
    std::size_t next;    // among the judged rows
    Index first, count;  // in the lanes
    bool settled;
  };

  [[nodiscard]] const Block& block() const noexcept { return blocks_[block_]; }
  [[nodiscard]] static bool bit(const Bits& bits, Index n) noexcept {
    return (bits[static_cast<std::size_t>(n / lane_count)] >> (n % lane_count) & 1) != 0;
  }
  void place_buffers();
  void look_at(const Problem& problem, const JudgedRows& rows, std::size_t next, bool knows_empty);
  void load();
  void load_masks();
  void judge(const products::ShortTops& tops);
  void judge_lse();

  Quick& quick_;
  const Call& call_;
  Format format_;
  const attest_tensor &out_, &lse_;
  bool speaks_ = true, masks_;
  Index room_ = 0;  // rows at once
  products::ShortLanes lanes_{};
  products::ShortRule rule_{};
  double* open_ = nullptr;
  double* bias_ = nullptr;
  std::array<RowIndex, most_rows> at_;
  Bits sound_, settled_, empty_;
  std::vector<Block> blocks_;
  std::size_t block_ = 0;
  Index asked_ = 0, settled_blocks_ = 0;
};

}  // namespace attest::oracle

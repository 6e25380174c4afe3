#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "core/problem.hpp"
#include "oracle/quick.hpp"

namespace attest::oracle {

// judged_rows(), without a list where every row is judged.
class JudgedRows {
 public:
  explicit JudgedRows(const Problem& problem)
      : all_(problem.rows == 0), count_(static_cast<std::size_t>(problem.b * problem.hq * problem.lq)) {
    if (all_) return;
    some_ = judged_rows(problem);
    count_ = some_.size();
  }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  Index operator[](std::size_t n) const noexcept { return all_ ? static_cast<Index>(n) : some_[n]; }

 private:
  bool all_;
  std::size_t count_;
  std::vector<Index> some_;
};

// Rows that read one key/value head, as many as Quick takes at once.
class Block {
 public:
  // Takes the rows from rows[next] on, at most `most`. Returns where the next block begins.
  std::size_t take(const Problem& problem, const JudgedRows& rows, std::size_t next, Index most) {
    const Index group = problem.group();
    for (count_ = 0; next < rows.size() && static_cast<Index>(count_) < most; ++next) {
      const Index flat = rows[next];
      if (count_ > 0 && follows(problem, rows_[count_ - 1], rows[next - 1], flat)) {
        const RowIndex& last = rows_[count_ - 1];
        rows_[count_] = {last.b, last.h, last.i + 1};
      } else {
        rows_[count_] = row_index(problem, flat);
        if (count_ > 0 && (rows_[count_].b != rows_[0].b || rows_[count_].h / group != rows_[0].h / group)) break;
      }
      ++count_;
    }
    return next;
  }
  [[nodiscard]] std::span<const RowIndex> rows() const noexcept { return {rows_.data(), count_}; }

 private:
  std::array<RowIndex, Quick::most_rows> rows_;
  std::size_t count_ = 0;
};

}  // namespace attest::oracle

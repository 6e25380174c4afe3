#pragma once
#include <cstddef>
#include <utility>
#include <vector>

namespace attest::oracle::layer_norm {

// Rows of numbers that outlive a problem, so that the next one need not ask for memory: a few per thread.
class LentRows {
 public:
  // `size` numbers, of any value.
  static std::vector<double> take(std::size_t size) {
    auto& rows = of_thread().rows_;
    std::vector<double> row;
    if (!rows.empty()) {
      row = std::move(rows.back());
      rows.pop_back();
    }
    if (row.size() != size) row.resize(size);
    return row;
  }
  static void give(std::vector<double>& row) {
    constexpr std::size_t most_rows = 16, longest = std::size_t{1} << 16;
    auto& rows = of_thread().rows_;
    if (row.capacity() > 0 && row.capacity() <= longest && rows.size() < most_rows) rows.push_back(std::move(row));
  }

 private:
  static LentRows& of_thread() {
    static thread_local LentRows rows;
    return rows;
  }
  std::vector<std::vector<double>> rows_;
};

// Gives a row back at the end of its scope.
struct Returned {
  std::vector<double>& row;
  explicit Returned(std::vector<double>& the_row) : row(the_row) {}
  ~Returned() { LentRows::give(row); }
  Returned(const Returned&) = delete;
  Returned& operator=(const Returned&) = delete;
};

}  // namespace attest::oracle::layer_norm

#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "models/stream.hpp"

namespace attest::models {

// The frequencies of lengths and values in the problems of a stream, and of their pairs.
struct Coverage {
  struct Field {
    std::string name;  // "size.batch", "values.ids"
    std::vector<std::pair<std::string, std::uint64_t>>
        values;  // lengths by powers of two, "5..8"; those that were drawn, in order
  };
  struct Table {
    std::string name;  // "size.batch and size.length"
    std::vector<std::string> rows, columns;
    std::vector<std::vector<std::uint64_t>> cells;
  };
  std::uint64_t problems = 0;
  std::vector<Field> fields;
  std::vector<Table> tables;  // any two axes, then axes with inputs; the first of these
};

// The coverage of the first `cases` problems, 100,000 at most.
Coverage coverage_of(const Stream& stream, std::uint64_t cases);

}  // namespace attest::models

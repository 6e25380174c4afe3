#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/problem.hpp"
#include "generators/domain.hpp"

namespace attest {

// Part of the domain: the problems for which `holds`. Regions may overlap.
struct Region {
  std::string name;
  std::function<bool(const Problem&)> holds;
};

// Two ways to look at problems. Kernels break where regions cross, so each region of the one must meet each of the
// other.
struct Crossing {
  std::string name;
  std::vector<Region> rows, columns;
  // Pairs that no problem can be in, by name: "bias of q's own type" says what `same` says already.
  std::vector<std::pair<std::string, std::string>> impossible;
};

// The crossings that matter, as data.
std::span<const Crossing> crossings();

// The number of problems in each region of a field: each label; an integer past 16 has its octaves 0, 1, 2, 3..4, 5..8
// and so on; a real has default, 0, negative, 1, and the positive numbers below each of some powers of two. Each value
// of a form is a region.
struct FieldCount {
  std::string name;                                           // name of a field, or form.NAME of a form
  bool labels;                                                // its values are words
  std::vector<std::pair<std::string, std::uint64_t>> values;  // in the field's order, never drawn ones included
  std::vector<Index> missing_edges;                           // edge values of an integer past 16 that were never drawn
};

// The problems that a domain draws, counted.
struct Coverage {
  struct Cell {
    std::uint64_t count = 0;
    bool possible = true;
  };
  struct Table {
    const Crossing* crossing;
    std::vector<std::uint64_t> rows, columns;  // problems in each region alone
    std::vector<std::vector<Cell>> cells;      // by row, then column
  };
  std::uint64_t problems = 0;
  std::vector<FieldCount> fields;
  std::vector<Table> tables;

  // "crossing: row" for a region that was never drawn, "crossing: row x column" for a pair whose two regions were.
  [[nodiscard]] std::vector<std::string> empty() const;
};

// Over problems 0..count-1 of `seed`.
Coverage cover(const Domain& domain, std::uint64_t seed, std::uint64_t count);

}  // namespace attest

#pragma once
#include <optional>
#include <vector>

#include "oracle/attention.hpp"
#include "oracle/element.hpp"
#include "oracle/mha/way.hpp"
#include "oracle/row.hpp"

namespace attest::oracle {

// The elements of one token of out, each from the heads of its row.
class OutRow {
 public:
  // Heads and their columns are evaluated as elements need them.
  void start(const Way::Block& block, Index b, Index i);
  // Returns the enclosure of column c of head h, before it is rounded.
  [[nodiscard]] const Enclosure& head(const Way& way, Index h, Index c);
  // Returns the enclosure of element e, before it is rounded to storage. Its hull is that of the attended values,
  // projected. `numbers`: every head is known to be made of numbers, so that those without a weight need no look.
  [[nodiscard]] Enclosure enclosure(const Way::Block& block, const Way& way, Index e, bool numbers = false);

 private:
  struct Head {
    Row row;
    HeadFacts facts;
    Index facts_of = -1;
    const Way* facts_way = nullptr;
    bool evaluated = false;
    std::vector<char> known;  // whether a column is evaluated
    std::vector<Enclosure> columns;
    std::vector<double> lo, hi;                      // the concatenated heads, as they enter the projection
    std::vector<std::vector<Column::Part>> parts;    // parts of each column
    std::vector<std::vector<double>> values, radii;  // padded
    std::vector<char> joins;  // whether a column takes part in the second enclosure of a weighted sum
  };
  struct Range {
    double lo, hi;
  };
  void evaluate_head(const Way& way, Index h);
  void evaluate_column(const Way& way, Index h, Index c);
  // Returns the interval of the weighted sum of a head's columns, since one set of weights serves them all.
  Range joint(const Way& way, Head& head, const double* weights);

  Index b_ = -1, i_ = -1;
  std::vector<Head> heads_;
  std::optional<SumErrors> errors_;  // errors of the last product
  const Way* errors_of_ = nullptr;
  Column column_;
  std::vector<double> above_, below_, most_;  // values weighted by a row of w_out
};

}  // namespace attest::oracle

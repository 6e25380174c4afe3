#pragma once
#include <optional>
#include <vector>

#include "oracle/linear/matrix.hpp"
#include "oracle/mha/way.hpp"
#include "oracle/row.hpp"
#include "oracle/statistical.hpp"

namespace attest::oracle {

// How far from the reference the elements of a block's out tend to lie, of one way (docs/mha.md, section 12). The reference is that
// of q, k and v as a projection without errors leaves them.
class BlockSpread {
 public:
  // Keeps a reference to `block`.
  BlockSpread(const Way::Block& block, WayName name);

  // Of an element of out before it is rounded: it lies within 1.05 lambda s + bias of y.
  struct Element {
    double y, s, bias;
  };
  // nullopt where the tier says nothing: of a head that has no keys, or whose weights err so much that errors do not add up.
  std::optional<Element> of(Index b, Index i, Index e);
  // No more than of() says of s and bias, and y but for how its sums are rounded, by no more than `slack`; for a small part of the
  // time. nullopt where of() has none for its heads.
  struct Least {
    double y, s, slack;
  };
  std::optional<Least> least_of(Index b, Index i, Index e);

 private:
  // The variance of what a projection leaves, element by element as the tensor has them: [tokens of all samples][width].
  [[nodiscard]] Matrix noise_of(const Matrix& x, const Matrix& w, const std::vector<double>& bias) const;
  [[nodiscard]] double stored_noise(double q, double sg, double bias) const;

  struct Head {
    Row row;
    RowSpread spread;
    bool usable = false;
    std::vector<std::vector<double>> values;  // of each column, by the row's keys
    std::vector<double> y, own, bias;         // of each column: reference, and what errs apart from its neighbours
    std::vector<Index> same;                  // the first column that holds the same values, or the same but for signs
    std::vector<double> sign;                 // of that
    bool distinct = true;                     // no column is another's
    std::vector<double> keys;                 // [key][column]
    std::vector<double> of_key;               // variance of each score for what its key errs by
    std::vector<double> of_query;             // of each element of q
  };
  void start(Index b, Index i);
  void evaluate(Index b, Index i, Index h);
  void find_same(Head& head) const;
  // w_out's numbers for a head, those of columns that are the same added up.
  const double* coefficients_of(const Head& head, const double* weights);
  // Adds what a head's part of an element may be off by; its reference. nullopt where nothing is said.
  std::optional<double> add_head(Head& head, const double* weights, double& variance, double& bias);

  const Way::Block& block_;
  WayName name_;
  SumRule rule_;  // of the projections
  std::optional<Way> way_;
  Matrix q_noise_, k_noise_, v_noise_;
  std::vector<Head> heads_;
  Index b_ = -1, i_ = -1;
  std::vector<double> combined_, coefficients_, terms_;
};

}  // namespace attest::oracle

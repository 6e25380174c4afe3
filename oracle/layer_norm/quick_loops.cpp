#include "oracle/layer_norm/quick_loops.hpp"

namespace attest::oracle::layer_norm {

extern template struct RowLoops<Lanes>;
extern template struct RowLoops<Pack<double, 4>>;
extern template struct RowLoops<Pack<double, 8>>;

namespace {

// The loops of the machine's instruction set, found out as the program starts. A caller before that has the least set,
// which gives the same results.
struct Chosen {
  decltype(&RowLoops<Lanes>::sums) sums = RowLoops<Lanes>::sums;
  decltype(&RowLoops<Lanes>::columns) columns = RowLoops<Lanes>::columns;
  decltype(&RowLoops<Lanes>::precise_sums) precise_sums = RowLoops<Lanes>::precise_sums;
  decltype(&RowLoops<Lanes>::precise_squares) precise_squares = RowLoops<Lanes>::precise_squares;
  decltype(&RowLoops<Lanes>::near_squares) near_squares = RowLoops<Lanes>::near_squares;
  decltype(&RowLoops<Lanes>::add) add = RowLoops<Lanes>::add;
  decltype(&RowLoops<Lanes>::same) same = RowLoops<Lanes>::same;
  decltype(&RowLoops<Lanes>::accept) accept = RowLoops<Lanes>::accept;
  decltype(&RowLoops<Lanes>::decide) decide = RowLoops<Lanes>::decide;
  decltype(&RowLoops<Lanes>::accept_short) accept_short = RowLoops<Lanes>::accept_short;
};

template <class L>
Chosen loops_of() {
  return {RowLoops<L>::sums,         RowLoops<L>::columns,     RowLoops<L>::precise_sums, RowLoops<L>::precise_squares,
          RowLoops<L>::near_squares, RowLoops<L>::add,         RowLoops<L>::same,         RowLoops<L>::accept,
          RowLoops<L>::decide,       RowLoops<L>::accept_short};
}

const Chosen& chosen() {
#ifdef ATTEST_X86_LOOPS
  static const Chosen best =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
          ? loops_of<Pack<double, 8>>()
      : __builtin_cpu_supports("avx2") ? loops_of<Pack<double, 4>>()
                                       : loops_of<Lanes>();
#else
  static const Chosen best = loops_of<Lanes>();
#endif
  return best;
}

}  // namespace

RowSums row_sums(const double* x, Index n, double pivot) { return chosen().sums(x, n, pivot); }
ColumnFacts column_facts(const ColumnRule& rule, const double* gamma, const double* beta, Index n) {
  return chosen().columns(rule, gamma, beta, n);
}
PreciseSums precise_sums(const double* x, Index n) { return chosen().precise_sums(x, n); }
PreciseSquares precise_squares(const double* x, Index n, double mean, double mean_rest) {
  return chosen().precise_squares(x, n, mean, mean_rest);
}
double near_squares(const double* x, Index n, double mean) { return chosen().near_squares(x, n, mean); }
void add_rows(const AddRule& rule, const double* x, const double* residual, Index n, double* sum, double* stored) {
  chosen().add(rule, x, residual, n, sum, stored);
}
bool same_numbers(const double* a, const double* b, Index n) { return chosen().same(a, b, n); }
bool accept_row(const AcceptRowRule& rule, const double* x, const double* gamma, const double* beta, const double* got,
                Index n, std::uint8_t* accepted) {
  return chosen().accept(rule, x, gamma, beta, got, n, accepted);
}
void accept_short(const ShortRule& rule, const double* x, const double* got, Index rows, std::uint8_t* accepted,
                  std::uint8_t* narrow) {
  chosen().accept_short(rule, x, got, rows, accepted, narrow);
}
void decide_row(const DecideRule& rule, const DecideColumns& columns, const double* x, const double* error,
                const double* d, const double* got, Index n, std::uint8_t* decided) {
  chosen().decide(rule, columns, x, error, d, got, n, decided);
}

}  // namespace attest::oracle::layer_norm

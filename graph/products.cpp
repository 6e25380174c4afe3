#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "graph/loops.hpp"
#include "graph/operators.hpp"
#include "graph/shapes.hpp"

namespace attest::graph {
namespace {

// Matrices [..., m, k] and [..., k, n], their leading axes broadcast.
struct Product {
  Product(const Step& step, const Array& a, const Array& b) : a(a), b(b) {
    const auto rank_a = a.shape.size(), rank_b = b.shape.size();
    m = a.shape[rank_a - 2];
    k = a.shape[rank_a - 1];
    n = b.shape[rank_b - 1];
    if (b.shape[rank_b - 2] != k) step.refuse(fmt::format("{} times {}", shape_text(a.shape), shape_text(b.shape)));
    const std::span<const Index> lead_a(a.shape.data(), rank_a - 2), lead_b(b.shape.data(), rank_b - 2);
    shape = broadcast(step, lead_a, lead_b);
    // Which matrix of each is multiplied: where broadcasting reads a row-major list of their numbers.
    from_a = numbers(step, lead_a);
    from_b = numbers(step, lead_b);
    shape.push_back(m);
    shape.push_back(n);
  }

  const Array &a, &b;
  Index m = 0, k = 0, n = 0;
  std::vector<Index> shape;  // of the result
  std::vector<Index> from_a, from_b;

  // Fills all lanes of `out`; with squares its only one.
  void multiply(Array& out, bool squares = false) const {
    if (b.shape.size() == 2 && b.lanes == 1) {  // one matrix for all rows of all lanes
      const Index rows = (squares ? 1 : a.lanes) * static_cast<Index>(from_a.size()) * m;
      multiply_matrices(a.floats.data(), b.floats.data(), out.floats.data(), rows, k, n, squares);
      return;
    }
    for (Index l = 0; l < out.lanes; ++l)
      for (std::size_t i = 0; i < from_a.size(); ++i)
        multiply_matrices(a.lane(l).data() + from_a[i] * m * k, b.lane(l).data() + from_b[i] * k * n,
                          out.lane(l).data() + static_cast<Index>(i) * m * n, m, k, n, squares);
  }

  void terms(Index lane, Index sum, std::span<double> to) const {
    const auto matrix = static_cast<std::size_t>(sum / (m * n));
    const Index row = sum / n % m, column = sum % n;
    const double* const x = a.lane(lane).data() + from_a[matrix] * m * k + row * k;
    const double* const y = b.lane(lane).data() + from_b[matrix] * k * n + column;
    for (Index j = 0; j < k; ++j) to[static_cast<std::size_t>(j)] = x[j] * y[j * n];
  }

 private:
  [[nodiscard]] std::vector<Index> numbers(const Step& step, std::span<const Index> lead) const {
    Array list = zeros(Type::i64, {lead.begin(), lead.end()});
    for (std::size_t i = 0; i < list.integers.size(); ++i) list.integers[i] = static_cast<std::int64_t>(i);
    return broadcast_to(step, list, shape).integers;
  }
};

// The product, with the errors of its sums but not yet stored.
Array product(Step& step, const Array& a, const Array& b) {
  const Product product(step, a, b);
  Array out = step.make(a.type, product.shape, std::max(a.lanes, b.lanes));
  product.multiply(out);
  Array squares = step.make(a.type, product.shape, 1);
  product.multiply(squares, true);
  step.sum(out, product.k, squares.floats,
           [&product](Index lane, Index sum, std::span<double> to) { product.terms(lane, sum, to); });
  return out;
}

void check_operands(const Step& step) {
  const Array &a = step.in(0), &b = step.in(1);
  if (!is_floating(a.type) || a.type != b.type)
    step.refuse(
        fmt::format("{} times {}: products of one floating-point type are evaluated", name(a.type), name(b.type)));
}

}  // namespace

void matrix_product(Step& step) {
  check_operands(step);
  if (step.in(0).rank() == 0 || step.in(1).rank() == 0) step.refuse("a number in place of a matrix");
  // A vector is a row on the left and a column on the right.
  const bool row = step.in(0).rank() == 1, column = step.in(1).rank() == 1;
  std::optional<Array> as_row, as_column;
  if (row) as_row.emplace(step.in(0)).shape.insert(as_row->shape.begin(), 1);
  if (column) as_column.emplace(step.in(1)).shape.push_back(1);
  Array out = product(step, row ? *as_row : step.in(0), column ? *as_column : step.in(1));
  if (column) out.shape.pop_back();
  if (row) out.shape.erase(out.shape.end() - (column ? 1 : 2));
  step.round(out);
  step.outputs.push_back(std::move(out));
}

void gemm(Step& step) {
  check_operands(step);
  if (step.in(0).rank() != 2 || step.in(1).rank() != 2) step.refuse("its operands are no matrices");
  const std::vector<Index> turned{1, 0};
  const auto operand = [&](std::size_t index, std::string_view turns) {
    return step.integer(turns, 0) != 0 ? transposed(step, step.in(index), turned) : step.in(index);
  };
  const Array a = operand(0, "transA"), b = operand(1, "transB");
  Array out = product(step, a, b);
  const double alpha = step.number("alpha", 1), beta = step.number("beta", 1);
  for (double& v : out.floats) v *= alpha;
  if (step.maybe(2) != nullptr && beta != 0) {
    const Array& added = step.in(2);
    if (added.type != out.type || broadcast(step, added.shape, out.shape) != out.shape)
      step.refuse(fmt::format("{} cannot be added to {}", shape_text(added.shape), shape_text(out.shape)));
    const Array addend = broadcast_to(step, added, out.shape);
    for (Index l = 0; l < out.lanes; ++l) {
      const auto sums = out.lane(l);
      const auto more = addend.lane(l);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += beta * more[i];
    }
  }
  step.round(out);
  step.outputs.push_back(std::move(out));
}

namespace {

// An 8-bit operand less its zero point, as exact numbers: one for all, or one for each row (of the left) or column (of the right).
Array less_zero_point(const Step& step, std::size_t operand, std::size_t zero_point, bool of_rows) {
  const Array& x = step.in(operand);
  if ((x.type != Type::u8 && x.type != Type::i8) || x.rank() < 2)
    step.refuse(fmt::format("{} {}: matrices of uint8 and int8 are multiplied", name(x.type), shape_text(x.shape)));
  Array out = step.make(Type::f64, x.shape, x.lanes);
  std::copy(x.integers.begin(), x.integers.end(), out.floats.begin());
  const Array* const given = step.maybe(zero_point);
  if (given == nullptr) return out;
  if (given->type != x.type || given->rank() > 1) step.refuse("a zero point of another type or rank");
  std::vector<Index> along(static_cast<std::size_t>(x.rank()), 1);
  if (given->rank() == 1) along[along.size() - (of_rows ? 2 : 1)] = given->size();
  if (broadcast(step, along, x.shape) != x.shape) step.refuse("a zero point of another length");
  Array zero = *given;
  zero.shape = along;
  zero.type = Type::f64;
  zero.floats.assign(given->integers.begin(), given->integers.end());
  zero.integers.clear();
  const Array wide = broadcast_to(step, zero, x.shape);
  Array less = step.make(Type::f64, x.shape, std::max(x.lanes, wide.lanes));
  for (Index l = 0; l < less.lanes; ++l)
    std::transform(out.lane(l).begin(), out.lane(l).end(), wide.lane(l).begin(), less.lane(l).begin(),
                   [](double v, double z) { return v - z; });
  return less;
}

}  // namespace

void integer_product(Step& step) {
  const Array a = less_zero_point(step, 0, 2, true), b = less_zero_point(step, 1, 3, false);
  const Product product(step, a, b);
  // Sums of products of 9 bits are exact in float64 for all lengths that fit into memory.
  Array sums = step.make(Type::f64, product.shape, std::max(a.lanes, b.lanes));
  product.multiply(sums);
  Array out = step.make(Type::i32, product.shape, sums.lanes);
  std::transform(sums.floats.begin(), sums.floats.end(), out.integers.begin(),
                 [](double v) { return static_cast<std::int64_t>(v); });
  step.outputs.push_back(std::move(out));
}

}  // namespace attest::graph

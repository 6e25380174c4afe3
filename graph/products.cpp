#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "graph/loops.hpp"
#include "graph/operators.hpp"
#include "graph/shapes.hpp"

namespace attest::graph {
namespace {

// The right operand of a product: a tensor, or a matrix, perhaps of weights as they are stored, perhaps turned.
struct Factor {
  Type type;
  std::vector<Index> shape;  // [..., k, n]
  const Array* array = nullptr;
  const Stored* stored = nullptr;
  bool turned = false;  // [n, k] lies there

  // Input `index` of a node.
  Factor(const Step& step, std::size_t index, bool turned) : turned(turned) {
    stored = step.stored(index);
    if (stored == nullptr) array = &step.in(index);
    type = stored == nullptr ? array->type : stored->type;
    shape = step.shape(index);
    if (turned) std::swap(shape[0], shape[1]);
  }
  explicit Factor(const Array& array) : type(array.type), shape(array.shape), array(&array) {}

  [[nodiscard]] Index lanes() const noexcept { return array == nullptr ? 1 : array->lanes; }
  // Calls f with a function that reads an element of the matrix that begins at `first`, by row and column.
  template <class F>
  void read(Index lane, Index first, F f) const {
    const Index down = turned ? 1 : shape.back(), across = turned ? shape[0] : 1;
    const auto with = [&](auto element) {
      f([=](Index row, Index column) { return element(first + row * down + column * across); });
    };
    if (stored != nullptr)
      with_floats(*stored, with);
    else
      with([from = array->lane(lane).data()](Index i) { return from[i]; });
  }
};

// Matrices [..., m, k] and [..., k, n], their leading axes broadcast.
struct Product {
  Product(const Step& step, const Array& a, Factor right) : step(step), a(a), b(std::move(right)) {
    const auto rank_a = a.shape.size(), rank_b = b.shape.size();
    m = a.shape[rank_a - 2];
    k = a.shape[rank_a - 1];
    n = b.shape[rank_b - 1];
    if (b.shape[rank_b - 2] != k) step.refuse(fmt::format("{} times {}", shape_text(a.shape), shape_text(b.shape)));
    const std::span<const Index> lead_a(a.shape.data(), rank_a - 2), lead_b(b.shape.data(), rank_b - 2);
    shape = broadcast(step, lead_a, lead_b);
    // The number of the matrix of each that is multiplied, where broadcasting reads a row-major list of their numbers.
    from_a = numbers(step, lead_a);
    from_b = numbers(step, lead_b);
    shape.push_back(m);
    shape.push_back(n);
  }

  const Step& step;
  const Array& a;
  Factor b;
  Index m = 0, k = 0, n = 0;
  std::vector<Index> shape;  // the result's
  std::vector<Index> from_a, from_b;

  // Fills all lanes of `out`, and `squares` with the sums of the squares of the first, where there is one.
  void multiply(Array& out, double* squares = nullptr) const {
    if (b.shape.size() == 2 && b.lanes() == 1) {  // one matrix for all rows of all lanes
      const Index rows = static_cast<Index>(from_a.size()) * m;
      b.read(0, 0, [&](auto element) {
        multiply_matrices(a.floats.data(), strip_of(element, a.lanes * rows), out.floats.data(), a.lanes * rows, k, n,
                          squares, rows);
      });
      return;
    }
    for (Index l = 0; l < out.lanes; ++l)
      for (std::size_t i = 0; i < from_a.size(); ++i) {
        const Index to = static_cast<Index>(i) * m * n;
        b.read(l, from_b[i] * k * n, [&](auto element) {
          multiply_matrices(a.lane(l).data() + from_a[i] * m * k, strip_of(element, m), out.lane(l).data() + to, m, k,
                            n, squares == nullptr || l > 0 ? nullptr : squares + to, m);
        });
      }
  }

  void terms(Index lane, Index sum, std::span<double> to) const {
    const auto matrix = static_cast<std::size_t>(sum / (m * n));
    const Index row = sum / n % m, column = sum % n;
    const double* const x = a.lane(lane).data() + from_a[matrix] * m * k + row * k;
    b.read(lane, from_b[matrix] * k * n, [&](auto element) {
      for (Index j = 0; j < k; ++j) to[static_cast<std::size_t>(j)] = x[j] * element(j, column);
    });
  }

 private:
  // For so many rows of the left operand.
  template <class Element>
  Strip strip_of(Element element, Index left_rows) const {
    return [this, element, left_rows](Index row, Index rows, Index column, Index columns, double* to) {
      step.worked(left_rows * rows * columns);
      for (Index p = 0; p < rows; ++p, to += strip_columns)
        if (columns == strip_columns)  // a known length
          for (Index j = 0; j < strip_columns; ++j) to[j] = element(row + p, column + j);
        else
          for (Index j = 0; j < columns; ++j) to[j] = element(row + p, column + j);
    };
  }

  [[nodiscard]] std::vector<Index> numbers(const Step& step, std::span<const Index> lead) const {
    Array list = zeros(Type::i64, {lead.begin(), lead.end()});
    for (std::size_t i = 0; i < list.integers.size(); ++i) list.integers[i] = static_cast<std::int64_t>(i);
    return broadcast_to(step, list, shape).integers;
  }
};

// The product, with the errors of its sums but not yet stored.
Array product(Step& step, const Array& a, Factor b) {
  const Product product(step, a, std::move(b));
  Array out = step.make(a.type, product.shape, std::max(a.lanes, product.b.lanes()));
  std::vector<double> squares(step.has_errors() ? static_cast<std::size_t>(out.size()) : 0);
  product.multiply(out, squares.empty() ? nullptr : squares.data());
  step.sum(out, product.k, squares,
           [&product](Index lane, Index sum, std::span<double> to) { product.terms(lane, sum, to); });
  return out;
}

void check_operands(const Step& step, const Factor& b) {
  const Array& a = step.in(0);
  if (!is_floating(a.type) || a.type != b.type)
    step.refuse(
        fmt::format("{} times {}: products of one floating-point type are evaluated", name(a.type), name(b.type)));
}

}  // namespace

void matrix_product(Step& step) {
  // A vector is a row on the left and a column on the right.
  const bool row = step.in(0).rank() == 1, column = step.shape(1).size() == 1;
  Factor b(step, 1, false);
  check_operands(step, b);
  if (step.in(0).rank() == 0 || b.shape.empty()) step.refuse("a number in place of a matrix");
  std::optional<Array> as_row;
  if (row) as_row.emplace(step.in(0)).shape.insert(as_row->shape.begin(), 1);
  if (column) b.shape.push_back(1);
  Array out = product(step, row ? *as_row : step.in(0), std::move(b));
  if (column) out.shape.pop_back();
  if (row) out.shape.erase(out.shape.end() - (column ? 1 : 2));
  step.round(out);
  step.outputs.push_back(std::move(out));
}

void gemm(Step& step) {
  if (step.in(0).rank() != 2 || step.shape(1).size() != 2) step.refuse("its operands are no matrices");
  Factor b(step, 1, step.integer("transB", 0) != 0);
  check_operands(step, b);
  std::optional<Array> turned;
  if (step.integer("transA", 0) != 0) turned = transposed(step, step.in(0), std::vector<Index>{1, 0});
  Array out = product(step, turned ? *turned : step.in(0), std::move(b));
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

// An 8-bit operand less its zero point, as exact numbers: one for all, or one for each row (of the left) or column (of
// the right).
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
  const Product product(step, a, Factor(b));
  // Sums of products of 9 bits are exact in float64 for all lengths that fit into memory.
  Array sums = step.make(Type::f64, product.shape, std::max(a.lanes, b.lanes));
  product.multiply(sums);
  Array out = step.make(Type::i32, product.shape, sums.lanes);
  std::transform(sums.floats.begin(), sums.floats.end(), out.integers.begin(),
                 [](double v) { return static_cast<std::int64_t>(v); });
  step.outputs.push_back(std::move(out));
}

}  // namespace attest::graph

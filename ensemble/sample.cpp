#include "ensemble/sample.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "core/rng.hpp"
#include "kernels/emulated/members.hpp"
#include "kernels/registry.hpp"

namespace attest::ensemble {
namespace {

constexpr Index most_work = Index{1} << 16;      // multiply-adds of a sample
constexpr Index most_of_a_row = Index{1} << 20;  // multiply-adds of the one row that a sample has at least
constexpr std::uint64_t member_stream = 0x656E736D;

// The work of a row in multiply-adds; the other steps on a score take as long as some 32.
Index work_of_a_row(const Problem& p) { return p.lk * (p.d + p.dv + 32); }

bool constant(Form form) { return form == Form::one || form == Form::zero; }

// One row's scores and weighted sum at a time; keys and values of a head are read once.
class Exact {
 public:
  Exact(const Inputs& in, bool softcap_before_bias) : in_(in), softcap_first_(softcap_before_bias) {}

  void add(const RowIndex& row, std::vector<long double>& out) {
    read(row.b, row.h / (in_.q.shape()[1] / in_.k.shape()[1]));
    const auto d = static_cast<std::size_t>(in_.q.shape()[3]), columns = static_cast<std::size_t>(in_.v.shape()[3]);
    std::vector<double> q(d);
    for (std::size_t c = 0; c < d; ++c) q[c] = in_.q.at(row.b, row.h, row.i, static_cast<Index>(c));
    scores_.clear();
    long double top = -std::numeric_limits<long double>::infinity();
    const Index keys = in_.k.shape()[2];
    const Index length = in_.kv_lengths.present() ? static_cast<Index>(in_.kv_lengths.at(row.b)) : keys;
    const KeyRange range = key_range(in_, row.i, in_.q.shape()[2], length);
    for (Index j = range.first; j < range.last; ++j) {
      if (in_.keep.present() && in_.keep.at(row.b, row.h, row.i, j) == 0) continue;
      const long double s = score(row, q, j);
      if (s == -std::numeric_limits<long double>::infinity()) continue;
      scores_.push_back({static_cast<std::size_t>(j), s});
      top = std::max(top, s);
    }
    std::vector<long double> sums(columns);
    long double total = 0;
    for (const auto& [j, s] : scores_) {
      const long double weight = std::exp(s - top);
      total += weight;
      for (std::size_t c = 0; c < columns; ++c) sums[c] += weight * values_[j * columns + c];
    }
    for (const long double sum : sums) out.push_back(sum / total);  // 0 / 0 of an empty row
  }

 private:
  void read(Index b, Index head) {
    if (b == b_ && head == head_) return;
    b_ = b, head_ = head;
    const Index keys = in_.k.shape()[2], d = in_.k.shape()[3], columns = in_.v.shape()[3];
    keys_.clear();
    values_.clear();
    for (Index j = 0; j < keys; ++j) {
      for (Index c = 0; c < d; ++c) keys_.push_back(in_.k.at(b, head, j, c));
      for (Index c = 0; c < columns; ++c) values_.push_back(in_.v.at(b, head, j, c));
    }
  }
  [[nodiscard]] long double capped(long double s) const {
    if (!(in_.softcap > 0)) return s;
    const long double cap = in_.softcap;
    return cap * std::tanh(s / cap);
  }
  [[nodiscard]] long double score(const RowIndex& row, const std::vector<double>& q, Index j) const {
    long double s = 0;
    const double* const key = keys_.data() + static_cast<std::size_t>(j) * q.size();
    for (std::size_t c = 0; c < q.size(); ++c) s += static_cast<long double>(q[c]) * key[c];
    s *= in_.scale;
    if (softcap_first_) s = capped(s);
    if (in_.bias.present()) s += in_.bias.at(row.b, row.h, row.i, j);
    return softcap_first_ ? s : capped(s);
  }

  struct Score {
    std::size_t key;
    long double value;
  };
  const Inputs& in_;
  const bool softcap_first_;
  Index b_ = -1, head_ = -1;
  std::vector<double> keys_, values_;  // [keys, d] and [keys, dv] of that head
  std::vector<Score> scores_;          // the open keys'
};

std::vector<double> read_rows(const Tensor& out, std::span<const RowIndex> rows) {
  std::vector<double> numbers;
  for (const RowIndex& row : rows)
    for (Index c = 0; c < out.shape()[3]; ++c) numbers.push_back(out.at(row.b, row.h, row.i, c));
  return numbers;
}

// Results of the built-in explicit kernel, for problems that are small as a whole; else none.
std::vector<double> native_rows(const Problem& problem, const Contract& contract, const Inputs& inputs,
                                std::span<const RowIndex> rows) {
  if (problem.multiply_adds() > most_work) return {};
  Problem plain = problem;
  plain.out_layout = Layout::bhsd;
  plain.lse = LseOutput::none;
  const Tensor out = make_out(plain), none;
  attest_attention call = inputs.call(out, none);
  call.threads = 1;
  call.form = nullptr;
  kernels::find_kernel(kernels::builtin_kernels(), "explicit")->run(call, contract);
  return read_rows(out, rows);
}

// True if another seed gives other values.
bool drawn_again(const Problem& p) {
  return p.edits.empty() && p.values != Values::file && p.values != Values::constant &&
         !(constant(p.q_form) && constant(p.k_form) && constant(p.v_form));
}

}  // namespace

std::optional<std::string_view> refusal(const Problem& problem, const Contract& contract) {
  if (contract.arithmetic.order_by_values) return "sums in an order that looks at the numbers";
  if (!drawn_again(problem)) return "its values cannot be drawn again";
  if (problem.b * problem.hq * problem.lq * problem.dv == 0) return "no output elements";
  if (problem.lk == 0) return "no keys";
  if (work_of_a_row(problem) > most_of_a_row) return "a row takes more than 2^20 multiply-adds";
  return std::nullopt;
}

std::vector<RowIndex> sampled_rows(const Problem& problem) {
  const std::vector<Index> judged = judged_rows(problem);
  const Index all = static_cast<Index>(judged.size());
  const Index most =
      std::clamp<Index>(most_work / std::max<Index>(1, work_of_a_row(problem)), 1, std::max<Index>(all, 1));
  std::vector<RowIndex> rows;
  for (Index n = 0; n < std::min(most, all); ++n)
    rows.push_back(row_index(problem, judged[static_cast<std::size_t>(n * all / most)]));
  return rows;
}

std::vector<long double> exact_rows(const Inputs& inputs, bool softcap_before_bias, std::span<const RowIndex> rows) {
  Exact exact(inputs, softcap_before_bias);
  std::vector<long double> out;
  for (const RowIndex& row : rows) exact.add(row, out);
  return out;
}

Sample sample(const Problem& problem, const Contract& contract, const Inputs& inputs, const Tensor& out) {
  const auto rows = std::make_shared<const std::vector<RowIndex>>(sampled_rows(problem));
  Sample sample;
  sample.format = contract.policy[Stage::output];
  sample.exact = exact_rows(inputs, contract.softcap_before_bias, *rows);
  sample.got = read_rows(out, *rows);
  for (const RowIndex& row : *rows)
    for (Index c = 0; c < problem.dv; ++c) sample.places.push_back({row.b, row.h, row.i, c});
  const std::uint64_t seed = extend(mix(problem.seed), member_stream);
  const auto variant = [&problem, &contract, seed](int n) {
    return emulator::member_variant(contract, problem, seed, n);
  };
  sample.native = [&problem, &contract, &inputs, rows] { return native_rows(problem, contract, inputs, *rows); };
  sample.member = [&contract, &inputs, rows, variant](int n) {
    return emulator::run_rows(inputs, contract, variant(n), *rows);
  };
  sample.scheme = [variant](int n) { return emulator::in_words(variant(n)); };
  return sample;
}

}  // namespace attest::ensemble

// The enclosures against those of an independent implementation of the same pages (tests/data/oracle_golden.sh).
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/inputs.hpp"
#include "oracle/attention.hpp"

namespace attest {
namespace {

using Words = std::map<std::string, std::string>;

std::vector<double> numbers_of(const std::string& line) {
  std::istringstream in(line);
  std::string word;
  in >> word;
  std::vector<double> numbers;
  while (in >> word) numbers.push_back(parse_double(word).value());
  return numbers;
}

Contract contract_of(const std::string& policy, const Words& words) {
  Contract contract = contract_for(policy_from_text(policy));
  contract.empty_row = EmptyRow::zero;
  Arithmetic& a = contract.arithmetic;
  const auto number = [&](const char* key, double fallback) {
    const auto found = words.find(key);
    return found == words.end() ? fallback : parse_double(found->second).value();
  };
  const auto is = [&](const char* key, const char* value) {
    const auto found = words.find(key);
    return found != words.end() && found->second == value;
  };
  a.kappa = number("kappa", 1);
  a.exp2 = !is("exp2", "0");
  if (is("merge", "none")) a.lse_merge = LseMerge::none;
  if (is("merge", "chain")) a.lse_merge = LseMerge::chain;
  if (words.contains("splits")) a.splits_max = static_cast<std::int64_t>(number("splits", 0));
  a.kv_tile_min = static_cast<std::int64_t>(number("tile", 1));
  if (is("fold", "0")) a.fold_q = a.fold_k = a.fold_sqrt = false;
  if (is("order", "ascending")) a.key_order = KeyOrder::ascending;
  if (is("normalise", "lse")) {
    a.normalise_after = a.normalise_before = false;
    a.normalise_lse = true;
  }
  if (is("normalise", "after")) a.normalise_before = false;
  if (is("weights", "lse")) a.merge_weights = MergeWeights::lse;
  a.flush_to_zero = is("flush", "1");
  if (is("tanh", "absolute")) a.tanh = TanhError::absolute;
  a.exp_ulp = number("exp_ulp", 1);
  if (is("sum", "rounded")) a.sum_of_unrounded = false;
  if (is("sum", "unrounded")) a.sum_of_rounded = false;
  if (words.contains("lazy")) a.lazy = number("lazy", 0);
  if (words.contains("operand")) contract.policy.set(Stage::operand, *format_from_name(words.at("operand")));
  return contract;
}

class Golden {
 public:
  explicit Golden(std::ifstream& in) : in_(in) {}

  // Reads and checks one case; false at the end of the file.
  bool check_next() {
    std::string line;
    if (!std::getline(in_, line)) return false;
    SCOPED_TRACE(line);
    std::istringstream words_in(line);
    std::string word, policy;
    words_in >> word >> policy;
    Words words;
    while (words_in >> word) words[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
    const auto integer = [&](const char* key) { return static_cast<Index>(std::stol(words.at(key))); };

    Problem problem;
    problem.lq = integer("lq");
    problem.lk = integer("lk");
    problem.d = integer("d");
    problem.dv = integer("dv");
    problem.dtype = *format_from_name(words.at("storage"));
    problem.scale = parse_double(words.at("scale"));
    problem.softcap = parse_double(words.at("cap")).value();
    problem.values = Values::constant;
    const auto q = read(), k = read(), v = read(), mask = read();
    const bool as_bias = integer("bias") != 0;
    if (!mask.empty() && as_bias) problem.bias = Bias::zero;
    if (!mask.empty() && !as_bias) problem.keep = Keep::open;
    Inputs inputs = materialise(problem);
    const auto fill = [](Tensor& tensor, const std::vector<double>& values, Index columns) {
      for (std::size_t n = 0; n < values.size(); ++n)
        tensor.set(0, 0, static_cast<Index>(n) / columns, static_cast<Index>(n) % columns, values[n]);
    };
    fill(inputs.q, q, problem.d);
    fill(inputs.k, k, problem.d);
    fill(inputs.v, v, problem.dv);
    if (!mask.empty() && as_bias) fill(inputs.bias, mask, problem.lk);
    if (!mask.empty() && !as_bias)
      for (std::size_t n = 0; n < mask.size(); ++n)
        inputs.keep.set(0, 0, static_cast<Index>(n) / problem.lk, static_cast<Index>(n) % problem.lk, mask[n] == 0);

    const Contract contract = contract_of(policy, words);
    oracle::AttentionOracle oracle(contract, problem, inputs);
    for (Index i = 0; i < problem.lq; ++i) {
      const auto row = read();
      const oracle::Enclosure lse = oracle.lse_enclosure(0, 0, i);
      EXPECT_EQ(lse.empty_row, row[0] != 0);
      EXPECT_EQ(lse.nonfinite_ok, row[1] != 0);
      if (lse.empty_row) continue;
      EXPECT_EQ(lse.undetermined, row[2] != 0);
      near(lse.lo, row[3], lse);
      near(lse.hi, row[4], lse);
      for (Index c = 0; c < problem.dv; ++c) {
        const auto out = read();
        const oracle::Enclosure element = oracle.out_enclosure(0, 0, i, c);
        EXPECT_EQ(element.nonfinite_ok, out[0] != 0) << "row " << i << " column " << c;
        if (!std::isnan(out[3])) {
          EXPECT_EQ(element.undetermined, out[1] != 0);
        }
        near(element.y, out[2], element);
        if (element.undetermined) continue;
        near(element.lo, out[3], element);
        near(element.hi, out[4], element);
        ++elements;
      }
    }
    return true;
  }

  int elements = 0;

 private:
  std::vector<double> read() {
    std::string line;
    std::getline(in_, line);
    return numbers_of(line);
  }

  static void near(double got, double expected, const oracle::Enclosure& scale) {
    if (!std::isfinite(expected)) {
      EXPECT_FALSE(std::isfinite(got) && !scale.undetermined) << expected;
      return;
    }
    EXPECT_LE(std::fabs(got - expected), 1e-9 * (std::fabs(expected - scale.y)) + 1e-13 * std::fabs(scale.y))
        << "got " << got << ", expected " << expected << ", y " << scale.y;
  }

  std::ifstream& in_;
};

TEST(OracleGolden, EnclosuresAgreeWithAnIndependentImplementation) {
  std::ifstream in(ATTEST_SOURCE_DIR "/tests/data/oracle_golden.txt");
  ASSERT_TRUE(in);
  Golden golden(in);
  while (golden.check_next()) {
  }
  EXPECT_GE(golden.elements, 400);
}

}  // namespace
}  // namespace attest

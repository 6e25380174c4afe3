#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/layer_norm/policy.hpp"
#include "core/policy.hpp"
#include "oracle/attention.hpp"
#include "report/export.hpp"
#include "subjects/builtin.hpp"
#include "tests/report/python.hpp"

namespace attest {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

class NeedsNumpy : public testing::Environment {
  void SetUp() override { need_python_with("numpy"); }
};
[[maybe_unused]] const auto* const needs_numpy = testing::AddGlobalTestEnvironment(new NeedsNumpy);

engine::Entry entry_of(const std::string& problem) {
  engine::Entry entry;
  entry.subject = "builtin:fused";
  const Problem own = problem_from_text(problem);
  validate(own);
  entry.problem = own;
  entry.contract = contract_for(policy_for(own.dtype));
  entry.property = "policy-bound";
  return entry;
}

std::unique_ptr<ops::Exchange> call_of(const engine::Entry& entry) {
  return entry.problem.op().exchange(entry.problem);
}

// An element of the first output, as a subject would have written it.
void answer(const ops::Exchange& call, Index i0, Index i1, Index i2, Index i3, double value) {
  store(call.outputs().front().tensor->view(), i0, i1, i2, i3, value);
}

std::vector<double> numbers_in(const std::filesystem::path& file) {
  std::vector<double> numbers;
  std::ifstream in(file);
  for (std::string word; in >> word;) numbers.push_back(parse_double(word == "-nan" ? "nan" : word).value());
  return numbers;
}

std::vector<double> elements(const Tensor& tensor) {
  std::array<Index, 4> n{1, 1, 1, 1};
  std::copy(tensor.shape().begin(), tensor.shape().end(), n.begin());
  std::vector<double> all;
  for (Index a = 0; a < n[0]; ++a)
    for (Index b = 0; b < n[1]; ++b)
      for (Index c = 0; c < n[2]; ++c)
        for (Index d = 0; d < n[3]; ++d) all.push_back(tensor.at(a, b, c, d));
  return all;
}

bool same(double a, double b) { return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b); }

// Python that writes the elements of an array, one hexadecimal number a line.
std::string dump(const std::string& array, const std::string& file) {
  return "open('" + file + "', 'w').write('\\n'.join(float(x).hex() for x in np.ravel(" + array + ")))\n";
}

struct Mismatch {
  int judged = 0;
  std::string first;  // empty: every judged element agrees
};

// The script's `expected` beside the oracle's float64 reference, where that is defined: 1e-12 of the largest value.
Mismatch against_oracle(const engine::Entry& entry, const Inputs& inputs, const std::vector<double>& expected) {
  const Problem& p = entry.problem.as<Problem>();
  oracle::AttentionOracle oracle(entry.contract.as<Contract>(), p, inputs);
  double largest = 0;
  for (const double x : elements(inputs.v))
    if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
  Mismatch result;
  std::size_t at = 0;
  for (Index b = 0; b < p.b; ++b)
    for (Index h = 0; h < p.hq; ++h)
      for (Index i = 0; i < p.lq; ++i)
        for (Index c = 0; c < p.dv; ++c) {
          const double x = expected.at(at++);
          const oracle::Enclosure e = oracle.out_enclosure(b, h, i, c);
          if (e.undetermined) continue;
          ++result.judged;
          const bool good = e.expect == oracle::Expect::nan         ? std::isnan(x)
                            : e.expect == oracle::Expect::nonfinite ? !std::isfinite(x)
                                                                    : std::fabs(x - e.y) <= 1e-12 * largest;
          if (!good && result.first.empty()) {
            std::ostringstream text;
            text << "[" << b << "," << h << "," << i << "," << c << "] = " << x << ", the oracle says " << e.y;
            result.first = text.str();
          }
        }
  return result;
}

// Runs the script of the entry, compares `expected` with the oracle and every literal with the tensor it came from.
void expect_faithful(const engine::Entry& entry, int at_least_judged = 1) {
  SCOPED_TRACE(to_text(entry.problem));
  const TemporaryFolder folder;
  const Inputs inputs = materialise(entry.problem.as<Problem>());
  std::string script = report::python_script({entry, *call_of(entry), false, {}}) + dump("expected", "expected");
  const std::vector<std::pair<std::string, const Tensor*>> tensors{
      {"q", &inputs.q},       {"k", &inputs.k},       {"v", &inputs.v},
      {"bias", &inputs.bias}, {"keep", &inputs.keep}, {"kv_lengths", &inputs.kv_lengths}};
  for (const auto& [name, tensor] : tensors)
    if (tensor->present()) script += dump(name, name);
  const std::string printed = run_python(script, folder.path());
  ASSERT_EQ(printed.find("status"), std::string::npos) << printed << script;
  EXPECT_EQ(printed.find("Warning"), std::string::npos) << printed;
  EXPECT_NE(printed.find("expected"), std::string::npos);
  for (const auto& [name, tensor] : tensors) {
    if (!tensor->present()) continue;
    const std::vector<double> there = numbers_in(folder.path() / name), here = elements(*tensor);
    EXPECT_TRUE(std::equal(here.begin(), here.end(), there.begin(), there.end(), same)) << name;
  }
  const Mismatch mismatch = against_oracle(entry, inputs, numbers_in(folder.path() / "expected"));
  EXPECT_GE(mismatch.judged, at_least_judged);
  EXPECT_EQ(mismatch.first, "");
}

Edit edit(Edit::Tensor tensor, std::array<Index, 4> index, double value) { return {tensor, index, value}; }

// Tests the title, the sentences and the list of tried problems, and a script that runs as it stands.
TEST(Issue, SaysWhatTheEntryHolds) {
  engine::Entry entry = entry_of("b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 dtype=f32 scale=0 values=integers:1 seed=3");
  entry.subject_version = "kernel 3.1";
  entry.minimal = true;
  entry.neighbours = {"lk: 2 -> 1", "scale: 0 -> default"};
  entry.explained = engine::Explained{{"policy-bound", VerdictKind::fail, "finite"}, "scale==0", {41, 42, 0, 9800}};
  Evidence& seen = entry.evidence.emplace();
  seen = {.tensor = "out", .got = 3.5, .expected = 2, .lo = 1.75, .hi = 2.25, .wrong = Wrong::finite, .note = ""};
  const std::vector<Quote> documents{{"scale", "Manual: \"any scale\""}, {"causal", "Manual: \"the diagonal\""}};
  const std::string text = report::issue_text({entry, *call_of(entry), false, {}}, documents, "Linux x86_64");
  for (const char* part :
       {"# builtin:fused, f32: wrong result with scale=0\n", "out[0,0,0,0] = 3.5, expected 2",
        "precision `f32` stays within 1.75 .. 2.25", "> Manual: \"any scale\"\n",
        "It is right with lk: 2 -> 1, scale: 0", "41 of 42 go wrong where `scale==0`, and 0 of 9,800 elsewhere",
        "- kernel 3.1\n- Linux x86_64\n"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  EXPECT_EQ(text.find("the diagonal"), std::string::npos);
  const std::size_t begin = text.find("```python\n") + 10;
  const TemporaryFolder folder;
  const std::string printed = run_python(text.substr(begin, text.find("```", begin) - begin), folder.path());
  EXPECT_NE(printed.find("expected"), std::string::npos) << printed;

  entry.evidence->got = nan;
  EXPECT_NE(report::issue_text({entry, *call_of(entry), false, {}}, {}, "").find("the result is nan"),
            std::string::npos);
  entry.evidence.reset();
  entry.seen = VerdictKind::error;
  entry.reason = "no such scale";
  const std::string refused = report::issue_text({entry, *call_of(entry), false, {}}, {}, "Linux");
  EXPECT_NE(refused.find("a valid call is refused"), std::string::npos);
  EXPECT_NE(refused.find("`no such scale`"), std::string::npos);
  EXPECT_NE(refused.find("Quote here the sentence"), std::string::npos);
}

class Script : public testing::TestWithParam<const char*> {};

TEST_P(Script, AgreesWithTheOracle) { expect_faithful(entry_of(GetParam())); }

constexpr const char* dims = "b=2 hq=4 hkv=2 lq=3 lk=5 d=3 dv=4 seed=7 ";
const std::string with_dims[] = {
    "dtype=f32 values=normal:1",
    "dtype=f64 values=normal:1 scale=-0x1.8p-1",
    "dtype=f16 values=integers:1 scale=0",
    "dtype=bf16 values=normal:1",
    "dtype=f32 values=normal:1 causal=1",
    "dtype=f32 values=normal:1 causal=1 align=bottom_right",
    "dtype=f32 values=normal:1 causal=1 align=bottom_right lengths=ragged",
    "dtype=f32 values=normal:1 causal=1 align=top_left lengths=some_zero",
    "dtype=f32 values=normal:1 lengths=some_zero",
    "dtype=f32 values=normal:1 window_left=1",
    "dtype=f32 values=normal:1 window_left=0 window_right=1 align=bottom_right lengths=ragged",
    "dtype=f32 values=normal:1 window_right=0",
    "dtype=f32 values=normal:1 keep=half",
    "dtype=f32 values=normal:1 keep=half keep_axes=9",
    "dtype=f32 values=normal:1 keep=some_empty keep_axes=12 mask_layout=spaced",
    "dtype=f32 values=normal:1 bias=normal bias_axes=8",
    "dtype=f16 values=normal:1 bias=normal bias_type=f32",
    "dtype=f32 values=normal:1 bias=normal bias_type=bf16",
    "dtype=bf16 values=normal:1 bias=empty_lowest bias_type=f64 keep=counted mask_layout=slice",
    "dtype=f16 values=unbalanced:1 q_layout=slice k_layout=slice v_layout=slice out_layout=slice",
    "dtype=f32 values=normal:1 bias=minus_inf keep=dense keep_axes=6",
    "dtype=f16 values=normal:1 bias=lowest",
    "dtype=f32 values=normal:1 softcap=0x1p+0 bias=large",
    "dtype=f32 values=normal:4 q_layout=broadcast_batch k_layout=broadcast_heads v_layout=broadcast_rows",
    "dtype=bf16 values=normal:1 q_layout=transposed k_layout=padded_rows v_layout=bshd",
};

std::vector<const char*> problems() {
  static const std::vector<std::string> lines = [] {
    std::vector<std::string> all;
    for (const std::string& rest : with_dims) all.push_back(dims + rest);
    return all;
  }();
  std::vector<const char*> texts;
  for (const std::string& line : lines) texts.push_back(line.c_str());
  return texts;
}

INSTANTIATE_TEST_SUITE_P(EveryOption, Script, testing::ValuesIn(problems()));

// A script that leaves one option out must not pass for the whole: the comparison notices.
TEST(Script, OfAnotherProblemIsFarFromTheOracle) {
  engine::Entry entry = entry_of(dims + with_dims[5]);
  const Inputs inputs = materialise(entry.problem.as<Problem>());
  engine::Entry other = entry;
  other.problem.as<Problem>().align = Align::top_left;
  const TemporaryFolder folder;
  run_python(report::python_script({other, *call_of(other), false, {}}) + dump("expected", "expected"), folder.path());
  EXPECT_NE(against_oracle(entry, inputs, numbers_in(folder.path() / "expected")).first, "");
}

TEST(Script, FollowsTheContract) {
  engine::Entry entry = entry_of(std::string(dims) +
                                 "dtype=f32 values=normal:1 keep=some_empty lengths=ragged softcap=0x1p+0 bias=normal");
  for (const EmptyRow rule : {EmptyRow::zero, EmptyRow::nan, EmptyRow::mean_v})
    for (const bool before : {true, false}) {
      entry.contract.as<Contract>().empty_row = rule;
      entry.contract.as<Contract>().softcap_before_bias = before;
      expect_faithful(entry, 2 * 4 * 3 * 4);
    }
}

TEST(Script, NotANumber) {
  engine::Entry entry = entry_of("b=1 hq=2 hkv=1 lq=3 lk=4 d=2 dv=2 dtype=f32 values=normal:1 causal=1 seed=3");
  entry.contract.as<Contract>().nan = NanRule::propagates;
  entry.contract.as<Contract>().masked_unread = MaskedUnread::yes;
  entry.problem.as<Problem>().edits = {
      edit(Edit::Tensor::q, {0, 1, 1, 0}, nan), edit(Edit::Tensor::v, {0, 0, 2, 1}, nan),
      edit(Edit::Tensor::k, {0, 0, 3, 0}, inf), edit(Edit::Tensor::v, {0, 0, 3, 0}, -inf),
      edit(Edit::Tensor::k, {0, 0, 0, 0}, -0.0)};
  expect_faithful(entry, 12);
}

TEST(Script, LiteralsKeepTheSignOfZeroAndExtremes) {
  engine::Entry entry = entry_of("b=1 hq=1 hkv=1 lq=1 lk=3 d=2 dv=2 dtype=f64 values=normal:1 seed=3");
  entry.problem.as<Problem>().edits = {edit(Edit::Tensor::v, {0, 0, 0, 0}, -0.0),
                                       edit(Edit::Tensor::v, {0, 0, 0, 1}, std::numeric_limits<double>::denorm_min()),
                                       edit(Edit::Tensor::v, {0, 0, 1, 1}, 0.1),
                                       edit(Edit::Tensor::v, {0, 0, 2, 1}, 1e22)};
  expect_faithful(entry);
}

TEST(Script, PrintsWitnessAndRecordedOutput) {
  engine::Entry entry = entry_of("b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=2 dtype=f32 values=constant:1 seed=3");
  entry.evidence = Evidence{"out", {0, 0, 0, 1}, 9, 1, 0.5, 1.5, 16, Wrong::finite, ""};
  const auto call = call_of(entry);
  answer(*call, 0, 0, 0, 0, 1);
  answer(*call, 0, 0, 0, 1, 9);
  const TemporaryFolder folder;
  const std::string printed = run_python(report::python_script({entry, *call, true, {}}), folder.path());
  EXPECT_EQ(printed,
            "expected 1.0\na kernel that keeps the policy f32 returns something in [0.5, 1.5]\ngot      9.0\n");
}

TEST(Script, AgreesWithTheOracleOnTheLogSumExp) {
  engine::Entry entry = entry_of(std::string(dims) + "dtype=f32 values=normal:1 lse=f32 causal=1 keep=some_empty");
  entry.evidence = Evidence{"lse", {1, 3, 2, 0}, 9, 1, 0.5, 1.5, 16, Wrong::finite, ""};
  const Inputs inputs = materialise(entry.problem.as<Problem>());
  const TemporaryFolder folder;
  const std::string printed =
      run_python(report::python_script({entry, *call_of(entry), false, {}}) + dump("lse", "lse"), folder.path());
  EXPECT_NE(printed.find("\nexpected lse "), std::string::npos) << printed;
  EXPECT_NE(printed.find("in [0.5, 1.5]\ngot lse      9\n"), std::string::npos) << printed;
  const std::vector<double> lse = numbers_in(folder.path() / "lse");
  oracle::AttentionOracle oracle(entry.contract.as<Contract>(), entry.problem.as<Problem>(), inputs);
  ASSERT_EQ(lse.size(), 2u * 4u * 3u);
  int empty = 0;
  for (std::size_t row = 0; row < lse.size(); ++row) {
    const auto r = static_cast<Index>(row);
    const double y = oracle.lse_enclosure(r / 12, r / 3 % 4, r % 3).y;
    if (std::isinf(y)) {
      ++empty;
      EXPECT_EQ(lse[row], y);
    } else {
      EXPECT_NEAR(lse[row], y, 1e-12);
    }
  }
  EXPECT_GT(empty, 0);
}

TEST(Script, RunsTheSubjectsOwnCode) {
  engine::Entry entry = entry_of("b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 dtype=f32 values=constant:1 seed=3");
  const TemporaryFolder folder;
  EXPECT_EQ(run_python(report::python_script({entry, *call_of(entry), false, "got = v * 4\n"}), folder.path()),
            "expected\n [[[[1.]]]]\ngot\n [[[[4.]]]]\n");
  EXPECT_EQ(run_python(report::python_script({entry, *call_of(entry), false, "raise SystemExit('refused: no')\n"}),
                       folder.path()),
            "expected\n [[[[1.]]]]\nrefused: no\nstatus 1\n");
}

// A stranger's text in a corpus file stays inside its comment.
TEST(Script, HostileTextsCannotEscape) {
  const std::string bad =
      "x'''\"\"\"\\\n\rimport os; os.mkdir('owned')\f\v\x1b]0;t\x07\xe2\x80\xa8os.mkdir('owned')\xc2\x85\\";
  engine::Entry entry = entry_of("b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 dtype=f32 values=constant:1 seed=3");
  entry.subject = entry.subject_version = entry.property = entry.reason = entry.bucket = entry.reference = bad;
  entry.original = entry.attest_version = bad;
  entry.evidence = Evidence{bad, {0, 0, 0, 0}, 9, 1, 0, 2, 8, Wrong::memory, bad};
  const std::string script = report::python_script({entry, *call_of(entry), false, {}});
  EXPECT_TRUE(std::all_of(script.begin(), script.end(), [](char c) { return c == '\n' || (c >= ' ' && c < 0x7f); }));
  const TemporaryFolder folder;
  EXPECT_EQ(run_python(script, folder.path()), "expected\n [[[[1.]]]]\n");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "owned"));
}

// ---- layer_norm -----------------------------------------------------------------------------------------------------

engine::Entry norm_entry(const std::string& line, const std::string& numbers = "{}") {
  engine::Entry entry;
  entry.subject = "builtin:ln-fused";
  entry.problem = ops::problem_from_text("op=layer_norm " + line);
  const ops::Op& op = entry.problem.op();
  const auto& own = entry.problem.as<layer_norm::Problem>();
  entry.contract = op.contract_from_json(nlohmann::json::parse(numbers), layer_norm::policy_for(own.dtype));
  entry.property = "policy-bound";
  return entry;
}

constexpr const char* norms[] = {
    "rows=3 hidden=7 dtype=f32 values=normal seed=1",
    "rows=3 hidden=7 dtype=f32 norm=rms beta=none values=uniform offset=0x1p+3 seed=2",
    "rows=2 hidden=5 dtype=f16 residual=like_x sum_out=1 values=normal seed=3",
    "rows=2 hidden=5 dtype=bf16 residual=large sum_out=1 param_type=f32 values=normal gamma=wide seed=4",
    "rows=2 hidden=5 dtype=f64 values=normal gamma=none beta=normal epsilon=0x1p-40 seed=5",
    "rows=2 hidden=5 dtype=bf16 values=normal gamma=none beta=none x_layout=transposed out_layout=spaced seed=6",
    "rows=0 hidden=5 dtype=f32 values=normal seed=7",
    "rows=1 hidden=1 dtype=f32 values=huge epsilon=0x1p+0 gamma=none beta=none seed=8"};

// `expected` and `sum_out` of the script beside the oracle's reference, every literal beside the tensor it came from.
TEST(NormScript, AgreesWithTheOracle) {
  for (const char* line : norms)
    for (const char* numbers : {"{}", R"({"gamma_offset":1})", R"({"sum_of":"unrounded"})"}) {
      SCOPED_TRACE(std::string(line) + " " + numbers);
      const engine::Entry entry = norm_entry(line, numbers);
      const TemporaryFolder folder;
      const auto call = call_of(entry);
      const bool sums = call->outputs().size() > 1;
      std::string script = report::python_script({entry, *call, false, {}}) + dump("expected", "expected");
      if (sums) script += dump("total", "total");
      for (const ops::NamedTensor& input : call->inputs())
        script += dump(std::string(input.name), std::string(input.name));
      const std::string printed = run_python(script, folder.path());
      ASSERT_EQ(printed.find("status"), std::string::npos) << printed << script;
      for (const ops::NamedTensor& input : call->inputs()) {
        const std::vector<double> there = numbers_in(folder.path() / input.name), here = elements(*input.tensor);
        EXPECT_TRUE(std::equal(here.begin(), here.end(), there.begin(), there.end(), same)) << input.name;
      }
      const std::vector<double> expected = numbers_in(folder.path() / "expected"),
                                total = sums ? numbers_in(folder.path() / "total") : std::vector<double>();
      std::size_t of_out = 0, of_sum = 0;
      call->walk(entry.contract, 1 << 20, [&](const ops::Permitted& at) {
        if (at.tensor == "sum_out")
          EXPECT_EQ(total.at(of_sum++), at.y);
        else
          EXPECT_NEAR(expected.at(of_out++), at.y, 1e-9 * (1 + std::fabs(at.y)));
      });
      EXPECT_EQ(of_out, expected.size());
      EXPECT_EQ(of_sum, total.size());
    }
}

TEST(NormScript, PrintsAWitnessOfEitherOutput) {
  engine::Entry entry = norm_entry("rows=1 hidden=2 dtype=f32 residual=zero sum_out=1 values=integers seed=3");
  entry.evidence = Evidence{"sum_out", {0, 1, 0, 0}, 9, 1, 1, 1, 16, Wrong::finite, ""};
  const TemporaryFolder folder;
  std::string printed = run_python(report::python_script({entry, *call_of(entry), false, {}}), folder.path());
  EXPECT_NE(printed.find("\nexpected sum_out "), std::string::npos) << printed;
  EXPECT_NE(printed.find("\ngot sum_out  9\n"), std::string::npos) << printed;
  entry.evidence = Evidence{"out", {0, 1, 0, 0}, 9, 1, 0.5, 1.5, 16, Wrong::finite, ""};
  const auto call = call_of(entry);
  answer(*call, 0, 1, 0, 0, 9);
  printed = run_python(report::python_script({entry, *call, true, {}}), folder.path());
  EXPECT_EQ(printed.find("expected ["), std::string::npos) << printed;  // one element of it
  EXPECT_NE(printed.find("in [0.5, 1.5]\ngot      9.0\n"), std::string::npos) << printed;
}

TEST(NormIssue, SaysWhatTheEntryHolds) {
  engine::Entry entry = norm_entry(norms[0]);
  entry.minimal = true;
  entry.seen = VerdictKind::fail;
  entry.evidence = Evidence{"out", {0, 1, 0, 0}, 9, 1, 0.5, 1.5, 16, Wrong::finite, ""};
  const std::vector<Quote> documents{{"variance", "Manual: \"the mean of the squares less the square of the mean\""}};
  const std::string text = report::issue_text({entry, *call_of(entry), false, {}}, documents, "Linux x86_64");
  for (const char* part :
       {"# builtin:ln-fused, f32: wrong result", "what LayerNorm means", "> Manual: \"the mean of the squares",
        "as small as it gets: 21 elements", "docs/layer-norm.md", "- Linux x86_64\n"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
}

// ---- mha ------------------------------------------------------------------------------------------------------------

// Runs many scripts in one Python; each leaves what dump() names under its number.
class Scripts {
 public:
  void add(const std::string& script) {
    std::ofstream(folder_.path() / ("s" + std::to_string(count_) + ".py")) << script;
    ++count_;
  }
  [[nodiscard]] std::string file(std::string_view name, int n) const { return std::string(name) + std::to_string(n); }
  [[nodiscard]] std::vector<double> numbers(std::string_view name, int n) const {
    return numbers_in(folder_.path() / file(name, n));
  }
  [[nodiscard]] int count() const noexcept { return count_; }
  std::string run() const {
    return run_python("import contextlib, io\nfor n in range(" + std::to_string(count_) +
                          "):\n"
                          "    with contextlib.redirect_stdout(io.StringIO()) as printed:\n"
                          "        exec(compile(open(f's{n}.py').read(), f's{n}.py', 'exec'), {})\n"
                          "    open(f'printed{n}', 'w').write(printed.getvalue())\n",
                      folder_.path());
  }
  [[nodiscard]] std::string printed(int n) const {
    std::ifstream in(folder_.path() / file("printed", n));
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  const TemporaryFolder folder_;
  int count_ = 0;
};

struct BlockCase {
  engine::Entry entry;
  std::unique_ptr<ops::Exchange> call;
  Verdict verdict;
};

// A problem drawn for a block or a fault, what that gave, and what attest says of it.
BlockCase block_case(const std::string& subject, const std::string& policy, const std::string& numbers,
                     const ops::Problem& problem) {
  const ops::Op& op = problem.op();
  BlockCase made;
  made.entry.subject = subject;
  made.entry.problem = problem;
  made.entry.contract = op.contract_from_json(nlohmann::json::parse(numbers), op.policy_from_text(policy));
  made.entry.property = "policy-bound";
  made.call = call_of(made.entry);
  EXPECT_EQ(builtin_subject(subject, policy)->open()->run_one(made.call->call()).status, CallStatus::done);
  made.verdict = made.call->judge(made.entry.contract);
  made.entry.evidence = made.verdict.evidence;
  return made;
}

std::vector<BlockCase> block_cases() {
  struct From {
    const char *subject, *policy, *numbers;
    int count;
  };
  constexpr const char* separate = R"({"projections":["separate"]})";
  constexpr const char* unrounded = R"({"projections":["unrounded"],"heads":["unrounded"]})";
  std::vector<BlockCase> all;
  for (const auto& [subject, policy, numbers, count] : {From{"builtin:mha-explicit", "f32", "{}", 40},
                                                        {"builtin:mha-explicit", "f16", R"({"empty_row":"zero"})", 40},
                                                        {"builtin:mha-fused", "bf16", "{}", 40},
                                                        {"builtin:mha-explicit", "f64", "{}", 20},
                                                        {"builtin:mha-separate", "f16", separate, 20},
                                                        {"builtin:mha-separate", "bf16", separate, 20},
                                                        {"builtin:mha-unrounded", "f16", unrounded, 20},
                                                        {"fault:mha-head-transpose", "f32", "{}", 40},
                                                        {"fault:mha-gemm-f16", "f16", "{}", 40},
                                                        {"fault:mha-bias-missing", "bf16", "{}", 30},
                                                        {"fault:mha-qkv-order", "f16", "{}", 30},
                                                        {"fault:mha-softmax-f16", "f16", "{}", 30}}) {
    const auto factory = builtin_subject(subject, policy);
    const ops::Op& op = *ops::find_op("mha");
    const auto domain = op.domain(ops::Supports(factory->info()), {storage_of(op.policy_from_text(policy))});
    int left = count;
    for (std::uint64_t n = 0; left > 0; ++n) {
      ops::Problem problem = domain->draw(17, n, 1).problem;
      if (work_of(problem) > 1 << 12) continue;
      all.push_back(block_case(subject, policy, numbers, problem));
      --left;
    }
  }
  return all;
}

// The script's `expected` lies in what attest permits, and what the block gave is outside there exactly where attest
// says so: on 370 problems of every way, mask and format, of blocks that conform and of faults.
TEST(BlockScript, AgreesWithTheVerdict) {
  const std::vector<BlockCase> cases = block_cases();
  Scripts scripts;
  for (const BlockCase& one : cases) {
    const int n = scripts.count();
    scripts.add(report::python_script({one.entry, *one.call, true, {}}) +
                dump("expected", scripts.file("expected", n)) + dump("got", scripts.file("got", n)));
  }
  const std::string printed = scripts.run();
  ASSERT_EQ(printed, "");
  int passed = 0, failed = 0, judged = 0;
  for (int n = 0; n < scripts.count(); ++n) {
    const BlockCase& one = cases[static_cast<std::size_t>(n)];
    SCOPED_TRACE(one.entry.subject + " " + to_text(one.entry.problem));
    const std::vector<double> expected = scripts.numbers("expected", n), got = scripts.numbers("got", n);
    const Format dtype = storage_of(one.entry.problem);
    std::size_t at = 0;
    bool outside = false;
    one.call->walk(one.entry.contract, Index{1} << 40, [&](const ops::Permitted& p) {
      const double y = round_to(dtype, expected.at(at)), seen = got.at(at++);
      if (p.undetermined || p.nonfinite || !p.number) {
        outside = outside || p.outcome == oracle::Outcome::outside;
        return;
      }
      ++judged;
      EXPECT_GE(y, p.lo) << p.y;
      EXPECT_LE(y, p.hi) << p.y;
      const bool out_of_it = !(seen >= p.lo && seen <= p.hi);
      EXPECT_EQ(out_of_it, p.outcome == oracle::Outcome::outside) << seen << " in " << p.lo << " .. " << p.hi;
      outside = outside || out_of_it;
    });
    EXPECT_EQ(at, expected.size());
    EXPECT_EQ(outside, one.verdict.kind == VerdictKind::fail);
    ++(outside ? failed : passed);
    if (!one.verdict.evidence) continue;
    EXPECT_NE(scripts.printed(n).find("\ngot      "), std::string::npos) << scripts.printed(n);
  }
  EXPECT_GT(passed, 180);
  EXPECT_GE(failed, 50);
  EXPECT_GT(judged, 5000);
}

// A script that leaves an option out, or takes another contract, must not pass for the whole.
TEST(BlockScript, OfAnotherCallIsOutside) {
  const ops::Problem problem = ops::problem_from_text(
      "op=mha b=2 l=4 m=6 e=5 heads=4 kv_heads=2 head_dim=3 dtype=f16 scale=0x1p+0 causal=1 padding=ragged bias=normal "
      "biases=all weights=dense seed=5");
  const BlockCase right = block_case("builtin:mha-explicit", "f16", "{}", problem);
  ASSERT_EQ(right.verdict.kind, VerdictKind::pass);
  Scripts scripts;
  std::string script = report::python_script({right.entry, *right.call, true, {}});
  const auto without = [&](const std::string& from, const std::string& to) {
    std::string other = script;
    const std::size_t at = other.find(from);
    ASSERT_NE(at, std::string::npos) << from << " is not in\n" << script;
    other.replace(at, from.size(), to);
    scripts.add(other + dump("expected", scripts.file("expected", scripts.count())));
  };
  without("import numpy", "import numpy");  // as it is
  without("s = np.where(j <= g, s, -np.inf)\n", "");
  without("s = np.where(j < kv_lengths[:, None, None, None], s, -np.inf)\n", "");
  without("s = s + bias.astype(np.float64)\n", "");
  without(" + wide(b_v)", "");
  without(" + wide(b_out)", "");
  without("np.repeat(t, 2, axis=1)", "np.tile(t, (1, 2, 1, 1))");
  without("g = i\n", "g = i + 2\n");
  ASSERT_EQ(scripts.run(), "");
  for (int n = 0; n < scripts.count(); ++n) {
    const std::vector<double> expected = scripts.numbers("expected", n);
    std::size_t at = 0;
    int outside = 0;
    right.call->walk(right.entry.contract, Index{1} << 40, [&](const ops::Permitted& p) {
      const double y = round_to(Format::f16, expected.at(at++));
      outside += !(y >= p.lo && y <= p.hi);
    });
    if (n == 0)
      EXPECT_EQ(outside, 0);
    else
      EXPECT_GT(outside, 0) << n;
  }
}

TEST(BlockScript, ShowsAStageFromThoseBefore) {
  const ops::Problem problem = ops::problem_from_text(
      "op=mha b=2 l=3 m=3 e=4 heads=2 kv_heads=1 head_dim=2 dtype=bf16 self=1 packed=1 biases=all weights=dense "
      "seed=5");
  BlockCase one = block_case("builtin:mha-explicit", "bf16", "{}", problem);
  one.entry.property = "stage-bound";
  const auto factory = builtin_subject("builtin:mha-explicit", "bf16");
  const ops::Law* law = ops::find_law("stage-bound", problem.op());
  ASSERT_TRUE(one.call->ask_for(*law, one.entry.contract, factory->info()));
  ASSERT_EQ(factory->open()->run_one(one.call->call()).status, CallStatus::done);
  ASSERT_EQ(one.call->outputs().size(), 5u);
  for (const ops::NamedTensor& stage : one.call->outputs()) {
    const attest_tensor view = stage.tensor->view();
    const double was = load(view, 1, 0, 1, 0);
    store(view, 1, 0, 1, 0, 2 * was + 1);
    const Verdict verdict = one.call->judge(one.entry.contract);
    ASSERT_EQ(verdict.kind, VerdictKind::fail);
    ASSERT_EQ(verdict.evidence->tensor, stage.name);
    one.entry.evidence = verdict.evidence;
    const TemporaryFolder folder;
    const std::string printed = run_python(report::python_script({one.entry, *one.call, true, {}}), folder.path());
    const std::string label = stage.name == "out" ? "" : std::string(stage.name);
    std::ostringstream got;
    got << "got " << (label.empty() ? "    " : label + std::string(9 - label.size(), ' '));
    EXPECT_NE(printed.find(got.str()), std::string::npos) << printed;
    const std::size_t at = printed.find(label.empty() ? "expected " : "expected " + label + " ");
    ASSERT_NE(at, std::string::npos) << printed;
    const std::string number = printed.substr(at + 9 + (label.empty() ? 0 : label.size() + 1));
    const double expected = round_to(Format::bf16, std::stod(number));
    EXPECT_GE(expected, round_to(Format::bf16, verdict.evidence->lo)) << printed;
    EXPECT_LE(expected, round_to(Format::bf16, verdict.evidence->hi)) << printed;
    store(view, 1, 0, 1, 0, was);
  }
}

constexpr const char* read_npz = R"(
import json, sys
import numpy as np
with np.load('x.npz', allow_pickle=False) as archive:
    manifest = json.loads(archive['manifest.json'])
    for name in archive.files:
        if name == 'manifest.json': continue
        array, dtype = archive[name], manifest['dtypes'][name]
        print(name, dtype, array.dtype, list(array.shape))
        if dtype == 'bf16': array = (array.astype(np.uint32) << 16).view(np.float32)
        open(name, 'w').write('\n'.join(float(x).hex() for x in np.ravel(array)))
    print(manifest['format'], manifest['problem']['dtype'], manifest['scale'])
)";

TEST(Npz, IsReadByNumpyWithEqualValues) {
  for (const std::string dtype : {"f16", "bf16", "f32", "f64"}) {
    engine::Entry entry = entry_of(dims + ("dtype=" + dtype) +
                                   " values=normal:1 keep=half keep_axes=8 bias=normal lengths=ragged "
                                   "q_layout=transposed v_layout=broadcast_heads out_layout=spaced scale=0x1p-1");
    entry.problem.as<Problem>().edits = {edit(Edit::Tensor::q, {0, 0, 0, 0}, nan),
                                         edit(Edit::Tensor::v, {1, 0, 0, 0}, -inf)};
    const auto call = call_of(entry);
    for (Index i = 0; i < 3; ++i) answer(*call, 1, 2, i, 3, static_cast<double>(i) - 0.5);
    const Tensor copy = call->outputs().front().tensor->clone();
    const Inputs inputs = materialise(entry.problem.as<Problem>());
    const TemporaryFolder folder;
    report::write_npz({entry, *call, true, {}}, folder.path() / "x.npz");
    const std::string seen = dtype == "bf16" ? "uint16" : "float" + dtype.substr(1);
    EXPECT_EQ(run_python(read_npz, folder.path()),
              "q " + dtype + " " + seen + " [2, 4, 3, 3]\nk " + dtype + " " + seen + " [2, 2, 5, 3]\nv " + dtype + " " +
                  seen + " [2, 2, 5, 4]\nbias " + dtype + " " + seen +
                  " [2, 4, 3, 5]\nkeep bool bool [2, 4, 3, 5]\nkv_lengths i32 int32 [2]\nout " + dtype + " " + seen +
                  " [2, 4, 3, 4]\n1 " + dtype + " 0x1p-1\n");
    const std::vector<std::pair<std::string, const Tensor*>> tensors{
        {"q", &inputs.q},       {"k", &inputs.k},       {"v", &inputs.v},
        {"bias", &inputs.bias}, {"keep", &inputs.keep}, {"kv_lengths", &inputs.kv_lengths},
        {"out", &copy}};
    for (const auto& [name, tensor] : tensors) {
      const std::vector<double> there = numbers_in(folder.path() / name), here = elements(*tensor);
      EXPECT_TRUE(std::equal(here.begin(), here.end(), there.begin(), there.end(), same)) << dtype << " " << name;
    }
  }
}

TEST(Npz, AFileThatCannotBeWrittenIsNamed) {
  const engine::Entry entry = entry_of("b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 dtype=f32 values=constant:1 seed=3");
  try {
    report::write_npz({entry, *call_of(entry), false, {}}, "/nowhere/x.npz");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    EXPECT_NE(std::string(error.what()).find("/nowhere/x.npz"), std::string::npos);
  }
}

}  // namespace
}  // namespace attest

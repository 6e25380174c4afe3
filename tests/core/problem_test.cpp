#include "core/problem.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/json_text.hpp"
#include "core/field.hpp"
#include "core/rng.hpp"

namespace attest {
namespace {

std::string message_of(const std::string& text) {
  try {
    (void)problem_from_text(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    return error.what();
  }
  ADD_FAILURE() << text << " was accepted";
  return {};
}

// Every field set to something other than its default, from random bits.
Problem scrambled(std::uint64_t seed) {
  Problem problem;
  std::uint64_t key = mix(seed);
  const auto next = [&] { return key = mix(key); };
  for (const Field& field : fields()) {
    if (field.kind == FieldKind::real)
      field.set_real(problem, std::fabs(symmetric_uniform(next())) * 8);
    else if (field.kind == FieldKind::seed)
      problem.seed = next();
    else {
      const auto span = static_cast<std::uint64_t>(std::min(field.hi, field.lo + 7) - field.lo + 1);
      field.set(problem, field.lo + static_cast<Index>(below(next(), span)));
    }
  }
  problem.hkv = 1 + static_cast<Index>(below(next(), 3));
  problem.hq = problem.hkv * 2;
  problem.b = problem.lq = problem.lk = problem.d = problem.dv = 3;
  if (problem.dtype == Format::tf32) problem.dtype = Format::bf16;
  if (broadcasts(problem.out_layout)) problem.out_layout = Layout::spaced;
  if (broadcasts(problem.mask_layout)) problem.mask_layout = Layout::transposed;
  problem.edits = {{Edit::Tensor::k, {0, 0, 2, 1}, -0x1.8p-3}, {Edit::Tensor::q, {1, 1, 0, 0}, INFINITY}};
  return problem;
}

TEST(Problem, TextAndJsonReadBackEveryField) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Problem problem = scrambled(seed);
    EXPECT_EQ(problem_from_text(to_text(problem)), problem) << to_text(problem);
    EXPECT_EQ(problem_from_json(parse_json(json_text(to_json(problem)))), problem) << json_text(to_json(problem));
  }
}

TEST(Problem, ReadsTheDocumentedLine) {
  const std::string line =
      "op=attention b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 dtype=f16 scale=0x1p-3 causal=1 align=bottom_right "
      "values=normal:1 "
      "seed=7";
  const Problem problem = problem_from_text(line);
  EXPECT_EQ(problem.lk, 2);
  EXPECT_EQ(problem.scale, 0.125);
  EXPECT_TRUE(problem.causal);
  EXPECT_EQ(to_text(problem), line);
}

TEST(Problem, EveryFieldHasADocAndItsSimplestValueInRange) {
  for (const Field& field : fields()) {
    EXPECT_FALSE(field.doc.empty()) << field.name;
    if (field.kind == FieldKind::real || field.kind == FieldKind::seed) continue;
    EXPECT_GE(field.simplest, field.lo) << field.name;
    EXPECT_LE(field.simplest, field.hi) << field.name;
    for (const Index edge : field.edges) {
      EXPECT_GE(edge, field.lo) << field.name;
      EXPECT_LE(edge, field.hi) << field.name;
    }
  }
}

TEST(Problem, ErrorsNameTheKeyAndTheRemedy) {
  EXPECT_NE(message_of("lk=two").find("lk must be an integer in 0..1048576"), std::string::npos);
  EXPECT_NE(message_of("lk=-1").find("0..1048576"), std::string::npos);
  EXPECT_NE(message_of("lk=99999999999999999999").find("lk"), std::string::npos);
  EXPECT_NE(message_of("speed=9").find("'speed'"), std::string::npos);
  EXPECT_NE(message_of("lk").find("not key=value"), std::string::npos);
  EXPECT_NE(message_of("lk=1 lk=2").find("twice"), std::string::npos);
  EXPECT_NE(message_of("op=mha").find("op=mha"), std::string::npos);
  EXPECT_NE(message_of("keep=often").find("one of none, open"), std::string::npos);
  EXPECT_NE(message_of("scale=fast").find("a number"), std::string::npos);
  EXPECT_NE(message_of("hq=3 hkv=2").find("no multiple"), std::string::npos);
  EXPECT_NE(message_of("dtype=tf32").find("tf32"), std::string::npos);
  EXPECT_NE(message_of("out_layout=broadcast_rows").find("must not broadcast"), std::string::npos);
  EXPECT_NE(message_of("scale=nan").find("finite"), std::string::npos);
  EXPECT_NE(message_of("softcap=-1").find("softcap"), std::string::npos);
  EXPECT_NE(message_of("b=65537 hq=65537 lk=1048576").find("multiply-adds"), std::string::npos);
  EXPECT_NE(message_of("lq=1048576 lk=1048576 d=0 dv=0").find("multiply-adds"), std::string::npos);
  EXPECT_NE(message_of("b=65537 hq=65537 hkv=65537 dv=0").find("rows of q or k"), std::string::npos);
  EXPECT_NE(message_of("b=65537 hkv=65537 hq=65537 lq=0").find("rows of q or k"), std::string::npos);
  EXPECT_NE(message_of("edit=k[0,0,5,0]:1").find("outside 0..0"), std::string::npos);
  EXPECT_NE(message_of("edit=bias[0,0,0,0]:1").find("does not have"), std::string::npos);
  EXPECT_NE(message_of("edit=k[0,0]:1").find("TENSOR[b,h,i,j]:VALUE"), std::string::npos);
}

TEST(Problem, CountsTheRowsThatAreJudged) {
  const std::string large = "b=1 hq=32 hkv=32 lq=4096 lk=4096 d=128 dv=128 dtype=f16";
  EXPECT_THROW(problem_from_text(large), Error);
  EXPECT_EQ(problem_from_text(large + " rows=4").rows, 4);
}

TEST(Problem, MultiplyAddsSaturate) {
  Problem problem;
  problem.lk = 2;
  EXPECT_EQ(problem.multiply_adds(), 4);
  problem.b = problem.hq = 65537;
  problem.lq = problem.lk = Index{1} << 20;
  problem.d = problem.dv = 1024;
  EXPECT_EQ(problem.multiply_adds(), std::numeric_limits<Index>::max());
}

TEST(NumberText, HexReadsBackExactly) {
  EXPECT_EQ(hex_float(1), "0x1p+0");
  EXPECT_EQ(hex_float(-0.375), "-0x1.8p-2");
  EXPECT_EQ(hex_float(0x1p-1074), "0x1p-1074");
  EXPECT_EQ(hex_float(-0.0), "-0x0p+0");
  EXPECT_EQ(hex_float(-INFINITY), "-inf");
  EXPECT_EQ(hex_float(NAN), "nan");
  for (std::uint64_t i = 0; i < 100000; ++i) {
    const double x = std::bit_cast<double>(mix(i));
    if (std::isnan(x)) continue;
    ASSERT_EQ(parse_double(hex_float(x)), x) << x;
  }
  EXPECT_EQ(parse_double("1.5"), 1.5);
  for (const char* wrong : {"", "-", "0x", "1.5x", "--1", "0x1p", "one"}) EXPECT_FALSE(parse_double(wrong)) << wrong;
}

}  // namespace
}  // namespace attest

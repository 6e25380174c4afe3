// attest/generators.hpp and attest/rapidcheck.hpp, as who links attest::generators has them.
#include <gtest/gtest.h>

#include <attest/attest.hpp>
#include <attest/generators.hpp>
#include <attest/rapidcheck.hpp>

#include <cmath>
#include <cstring>
#include <set>
#include <stdexcept>
#include <thread>

#include "tests/library/expected.hpp"
#include "tests/shrunk.hpp"

namespace {

using attest::Attention;
using attest::LayerNorm;
using attest::Mha;
namespace generators = attest::generators;
using generators::Call;
using generators::Domain;
using generators::draw;
using generators::Problem;

const std::string all = R"({"ops":["attention"], "dtypes":["f32","f16"]})";
const std::string narrow = R"({"ops":["attention"], "dtypes":["f32"],
  "supports":{"align":["top_left"], "gqa":false, "bias":false, "keep":false, "kv_lengths":false, "window":false, "softcap":false,
              "lse":false, "strides":"contiguous", "dims":{"dv":"=d"}}})";

TEST(Generators, DrawWhatACampaignDraws) {
  for (const std::string& describe : {all, narrow, std::string(R"({"ops":["layer_norm"], "dtypes":["f32"]})"),
                                      std::string(R"({"ops":["mha"], "dtypes":["bf16"]})")}) {
    const Domain domain(describe);
    for (std::uint64_t number = 0; number < 100; ++number)
      EXPECT_EQ(draw(domain, 7, number).text(), expected::drawn(describe, 7, number));
  }
}

TEST(Generators, KeepToTheDomainAndTheAssumption) {
  const Domain domain(narrow, "lq<=lk && causal");
  std::set<std::string> seen;
  for (std::uint64_t number = 0; number < 200; ++number) {
    const Problem problem = draw(domain, 3, number);
    seen.insert(problem.text());
    Call made(problem);
    const Attention call(made.attention());
    EXPECT_TRUE(call.causal);
    EXPECT_LE(call.queries(), call.keys());
    EXPECT_EQ(call.heads(), call.kv_heads());
    EXPECT_TRUE(call.q.holds<const float>() && call.q.contiguous() && call.v.contiguous());
    EXPECT_FALSE(call.bias || call.keep || call.kv_lengths || call.lse);
    EXPECT_EQ(call.softcap, 0);
  }
  EXPECT_GT(seen.size(), 190u);
}

TEST(Generators, CallsHaveTheTensorsOfTheProblem) {
  const Domain domain(all);
  for (std::uint64_t number = 0; number < 40; ++number) {
    const Problem problem = draw(domain, 11, number);
    Call first(problem);
    const Call made = std::move(first);
    const Attention call(made.attention());
    std::vector<double> numbers;
    for (std::int64_t b = 0; b < call.q.size(0); ++b)
      for (std::int64_t h = 0; h < call.q.size(1); ++h)
        for (std::int64_t i = 0; i < call.q.size(2); ++i)
          for (std::int64_t d = 0; d < call.q.size(3); ++d) numbers.push_back(call.q.load(b, h, i, d));
    numbers.push_back(call.scale);
    const auto expected = expected::q_and_scale(problem.text());
    ASSERT_EQ(numbers.size(), expected.size());
    EXPECT_EQ(std::memcmp(numbers.data(), expected.data(), numbers.size() * sizeof(double)), 0) << problem;
    if (call.out.size(0) * call.out.size(1) * call.out.size(2) * call.out.size(3) > 0) {
      EXPECT_TRUE(std::isnan(call.out.load(0, 0, 0, 0)));
      call.out.store(1, 0, 0, 0, 0);
      EXPECT_EQ(call.out.load(0, 0, 0, 0), 1);
    }
  }
}

TEST(Generators, OtherOperationsHaveCallsOfTheirOwn) {
  const Domain norms(R"({"ops":["layer_norm"], "dtypes":["f32"]})"), blocks(R"({"ops":["mha"], "dtypes":["f32"]})");
  for (std::uint64_t number = 0; number < 30; ++number) {
    Call norm(draw(norms, 1, number)), block(draw(blocks, 1, number));
    const LayerNorm of_norm(norm.layer_norm());
    EXPECT_EQ(of_norm.x.size(1), of_norm.out.size(1));
    const Mha of_block(block.mha());
    EXPECT_EQ(of_block.x.size(0), of_block.out.size(0));
    EXPECT_THROW(norm.attention(), std::logic_error);
    EXPECT_THROW(block.layer_norm(), std::logic_error);
  }
}

// Simpler problems stay in the domain, and the way down ends.
TEST(Generators, SimplerProblemsLeadToASmallestOne) {
  const Domain domain(narrow, "lk>=2");
  for (std::uint64_t number = 0; number < 20; ++number) {
    Problem problem = draw(domain, 5, number);
    int steps = 0;
    const auto fails = [](const Problem& one) {
      Call made(one);
      return Attention(made.attention()).keys() >= 3;
    };
    if (!fails(problem)) continue;
    for (bool shrunk = true; shrunk && steps < 10'000;) {
      shrunk = false;
      for (const Problem& one : problem.simpler()) {
        EXPECT_NE(one, problem);
        EXPECT_GE(Attention(Call(one).attention()).keys(), 2) << one;
        if (!fails(one)) continue;
        problem = one;
        shrunk = true;
        ++steps;
        break;
      }
    }
    EXPECT_EQ(problem.text().substr(0, 40), "op=attention b=1 hq=1 hkv=1 lq=1 lk=3 d=") << problem;
  }
}

TEST(Generators, TextComesBack) {
  const Domain domain(all);
  for (std::uint64_t number = 0; number < 50; ++number) {
    const Problem problem = draw(domain, 2, number);
    EXPECT_EQ(Problem(domain, problem.text()), problem);
  }
  EXPECT_EQ(Problem(domain, "b=1 hq=1 hkv=1 lq=2 lk=3 d=4 dv=4 dtype=f32").text().substr(0, 12), "op=attention");
}

TEST(Generators, SayWhatIsWrong) {
  const auto says = [](const std::string& part, auto&& body) {
    try {
      body();
      ADD_FAILURE() << "nothing was thrown: " << part;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  says("JSON", [] { Domain("{"); });
  says("nope", [] { Domain(R"({"ops":["attention"], "nope":1})"); });
  says("lqq", [] { Domain(all, "lqq<3"); });
  says("lk", [] { Domain(all, "lk>4 && lk<3"); });
  const Domain domain(all);
  says("nope", [&] { Problem(domain, "nope=3"); });
  says("operation", [&] {
    Problem(domain, Problem(Domain(R"({"ops":["layer_norm"], "dtypes":["f32"]})"), "rows=1 hidden=4").text());
  });
  const Domain none(all, "b*0==1");
  says("", [&] { draw(none, 1, 1); });
}

TEST(Generators, ADomainServesSeveralThreads) {
  const Domain domain(all);
  std::vector<std::string> of_one(200), of_many(200);
  for (std::uint64_t i = 0; i < 200; ++i) of_one[i] = draw(domain, 9, i).text();
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::uint64_t i = t; i < 200; i += 4) of_many[i] = draw(domain, 9, i).text();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(of_one, of_many);
}

TEST(RapidCheck, DrawsByItsRandomNumbersAndShrinks) {
  const Domain domain(narrow);
  const auto gen = generators::problems(domain);
  EXPECT_EQ(gen(rc::Random(4), 100).value(), gen(rc::Random(4), 3).value());
  EXPECT_NE(gen(rc::Random(4), 100).value(), gen(rc::Random(5), 100).value());
  const auto fails = [](const Problem& one) {
    Call made(one);
    return Attention(made.attention()).queries() >= 2;
  };
  std::uint64_t seed = 0;
  while (!fails(gen(rc::Random(seed), 100).value())) ++seed;
  const auto shrinkable = attest::test::shrunk(gen(rc::Random(seed), 100), fails);
  EXPECT_EQ(shrinkable.value().text().substr(0, 40), "op=attention b=1 hq=1 hkv=1 lq=2 lk=1 d=");
  std::ostringstream shown;
  rc::show(shrinkable.value(), shown);
  EXPECT_EQ(shown.str(), shrinkable.value().text());
}

}  // namespace

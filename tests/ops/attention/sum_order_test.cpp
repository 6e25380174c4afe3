// Orders of sums found from outside: of kernels whose order is known, and of those that have none.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "core/format.hpp"
#include "ops/op.hpp"
#include "probed.hpp"

namespace attest {
namespace {

using test::Probed;

// ---- orders, of numbers and of their names --------------------------------------------------------------------------

template <class T>
using Add = std::function<T(const T&, const T&)>;
template <class T>
using Reduce = std::function<T(std::vector<T>, const Add<T>&)>;

template <class T>
T chain(std::vector<T> terms, const Add<T>& add) {
  T sum = terms.front();
  for (std::size_t n = 1; n < terms.size(); ++n) sum = add(sum, terms[n]);
  return sum;
}
template <class T>
T backwards(std::vector<T> terms, const Add<T>& add) {
  std::ranges::reverse(terms);
  return chain(std::move(terms), add);
}
template <class T>
T pairwise(std::vector<T> terms, const Add<T>& add) {
  while (terms.size() > 1) {
    const std::size_t half = (terms.size() + 1) / 2;
    for (std::size_t n = 0; n + half < terms.size(); ++n) terms[n] = add(terms[n], terms[n + half]);
    terms.resize(half);
  }
  return terms.front();
}
template <class T>
T tiles(std::vector<T> terms, const Add<T>& add) {
  std::vector<T> sums;
  for (auto begin = terms.begin(); begin != terms.end();) {
    const auto end = begin + std::min<std::ptrdiff_t>(16, terms.end() - begin);
    sums.push_back(chain(std::vector<T>(begin, end), add));
    begin = end;
  }
  return chain(std::move(sums), add);
}
template <class T>
T lanes(std::vector<T> terms, const Add<T>& add) {
  constexpr std::size_t count = 8;
  std::vector<T> sums;
  for (std::size_t lane = 0; lane < std::min(count, terms.size()); ++lane) {
    std::vector<T> own;
    for (std::size_t n = lane; n < terms.size(); n += count) own.push_back(terms[n]);
    sums.push_back(chain(std::move(own), add));
  }
  return pairwise(std::move(sums), add);
}
template <class T>
T splits(std::vector<T> terms, const Add<T>& add) {
  const auto half = terms.begin() + std::ssize(terms) / 2;
  return add(tiles(std::vector<T>(terms.begin(), half), add), tiles(std::vector<T>(half, terms.end()), add));
}

// A sum of names, whose parts stand in the order of their least term.
struct Name {
  std::size_t first;
  std::string text;
};
template <class Order>
std::string nested(Index terms, const Order& order) {
  std::vector<Name> names;
  for (Index n = 0; n < terms; ++n) names.push_back({static_cast<std::size_t>(n), std::to_string(n)});
  const Add<Name> add = [](const Name& a, const Name& b) {
    return a.first < b.first ? Name{a.first, "(" + a.text + " " + b.text + ")"}
                             : Name{b.first, "(" + b.text + " " + a.text + ")"};
  };
  return order(std::move(names), add).text;
}

// ---- kernels --------------------------------------------------------------------------------------------------------

// The mean of v's columns, in `sums`; all that is left of attention where q is 0. `order` gets the number of the column.
Probed mean_of(Format storage, const std::function<double(std::vector<double>, Index column)>& sum) {
  const Policy policy = policy_for(storage);
  return Probed(contract_for(policy), [=](const attest_attention& call) {
    const Index* of = call.out.shape;
    const Index group = of[1] / call.v.shape[1], keys = call.v.shape[2];
    for (Index b = 0; b < of[0]; ++b)
      for (Index h = 0; h < of[1]; ++h)
        for (Index column = 0; column < of[3]; ++column) {
          std::vector<double> terms;
          for (Index key = 0; key < keys; ++key) terms.push_back(load(call.v, b, h / group, key, column));
          const double mean = sum(std::move(terms), column) / static_cast<double>(keys);
          for (Index row = 0; row < of[2]; ++row) store(call.out, b, h, row, column, mean);
        }
  });
}
template <class Order>
Probed in_order(Format storage, Format sums, const Order& order) {
  return mean_of(storage, [=](std::vector<double> terms, Index) {
    return order(std::move(terms), Add<double>([sums](double a, double b) { return round_to(sums, a + b); }));
  });
}
// A tensor core's block: the sum so far and so many products, cut 25 bits below the largest and added at once.
Probed in_blocks(Format storage, std::size_t block) {
  return mean_of(storage, [=](const std::vector<double>& terms, Index) {
    double sum = 0;
    for (std::size_t begin = 0; begin < terms.size(); begin += block) {
      std::vector<double> some(terms.begin() + static_cast<std::ptrdiff_t>(begin),
                               terms.begin() + static_cast<std::ptrdiff_t>(std::min(begin + block, terms.size())));
      some.push_back(sum);
      double largest = 0;
      for (const double x : some) largest = std::max(largest, std::fabs(x));
      sum = 0;
      if (largest == 0) continue;
      const double unit = std::ldexp(1.0, std::ilogb(largest) - 25);
      for (const double x : some) sum += std::trunc(x / unit) * unit;
      sum = round_to(Format::f32, sum);
    }
    return sum;
  });
}

std::vector<ops::SumOrder> orders(Subject& subject, Index keys, const std::optional<ops::Problem>& call) {
  const Format dtype = subject.info().dtypes.front();
  const ops::Contract contract = subject.info().contract(dtype);
  return ops::all_ops().front()->probes()->sum_orders({subject, dtype, contract, true}, keys, call);
}
ops::SumOrder order_of(Subject& subject, Index keys) {
  return orders(subject, keys,
                ops::problem_from_text(fmt::format("op=attention hq=2 hkv=2 lk={} d=4 dv=32 dtype={}", keys,
                                                   name(subject.info().dtypes.front()))))
      .front();
}
std::string words(Subject& subject, Index keys) { return order_of(subject, keys).words; }
std::string reason(Subject& subject, Index keys) { return order_of(subject, keys).reason; }

// ---- what is found --------------------------------------------------------------------------------------------------

template <class Numbers, class Names>
void expect_found(const std::string& what, Format storage, Format sums, const Numbers& numbers, const Names& names) {
  for (const Index keys : {2, 7, 100, 256}) {
    Probed subject = in_order(storage, sums, numbers);
    const ops::SumOrder order = order_of(subject, keys);
    EXPECT_EQ(order.nested, nested(keys, names))
        << what << ", " << keys << " keys of " << name(storage) << " in " << name(sums) << ": " << order.reason;
  }
}

TEST(SumOrder, ThatOfKernelsWhoseOrderIsKnown) {
  const auto in_f32 = [](const std::string& what, const auto& numbers, const auto& names) {
    expect_found(what, Format::f32, Format::f32, numbers, names);
  };
  in_f32("chain", chain<double>, chain<Name>);
  in_f32("backwards", backwards<double>, backwards<Name>);
  in_f32("pairwise", pairwise<double>, pairwise<Name>);
  in_f32("tiles", tiles<double>, tiles<Name>);
  in_f32("lanes", lanes<double>, lanes<Name>);
  in_f32("splits", splits<double>, splits<Name>);
}

TEST(SumOrder, InEveryFormat) {
  using enum Format;
  for (const auto& [storage, sums] :
       {std::pair{f64, f64}, {f32, f64}, {bf16, f32}, {bf16, bf16}, {f16, f32}, {f16, f16}, {f32, f16}})
    expect_found("tiles", storage, sums, tiles<double>, tiles<Name>);
}

TEST(SumOrder, InWords) {
  const auto said = [](const auto& order) {
    Probed subject = in_order(Format::f32, Format::f32, order);
    return words(subject, 256);
  };
  EXPECT_EQ(said(chain<double>), "chain of 256 terms");
  EXPECT_EQ(said(backwards<double>), "chain of 256 terms");
  EXPECT_EQ(said(pairwise<double>), "pairwise sum of 256 terms");
  EXPECT_EQ(said(tiles<double>), "chain of 16, each a chain of 16 terms");
  EXPECT_EQ(said(lanes<double>), "pairwise sum of 8, each a chain of 32 terms (every 8th)");
  EXPECT_EQ(said(splits<double>), "pairwise sum of 2, each a chain of 8, each a chain of 16 terms");
}

TEST(SumOrder, BlocksOfATensorCore) {
  for (const Format storage : {Format::f32, Format::bf16, Format::f16})
    for (const std::size_t block : {4, 8, 16}) {
      Probed subject = in_blocks(storage, block);
      EXPECT_EQ(words(subject, 256),
                fmt::format("chain of {} blocks of {} terms, each added at once", 256 / block, block))
          << name(storage) << ": " << reason(subject, 256);
    }
}

TEST(SumOrder, ManyRowsAndOneAreToldApart) {
  Probed one = in_order(Format::f32, Format::f32, chain<double>),
         many = in_order(Format::f32, Format::f32, lanes<double>);
  Probed subject(contract_for(policy_for(Format::f32)), [&](const attest_attention& call) {
    Probed& used = call.q.shape[2] == 1 ? one : many;
    used.run_one(call);
  });
  const std::vector<ops::SumOrder> all = orders(subject, 64, std::nullopt);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].words, "chain of 64 terms");
  EXPECT_EQ(all[1].words, "pairwise sum of 8, each a chain of 8 terms (every 8th)");
  EXPECT_EQ(all[2].nested, all[0].nested);
}

TEST(SumOrder, WhereThereIsNoneAReasonIsTold) {
  Probed exact = mean_of(Format::f32, [](std::vector<double> terms, Index) {
    double large = 0, small = 0;
    for (const double x : terms) (std::fabs(x) > 1024 ? large : small) += x;
    return large + small;
  });
  EXPECT_NE(reason(exact, 64).find("nothing is lost"), std::string::npos) << reason(exact, 64);
  Probed apart = mean_of(Format::f32, [](std::vector<double> terms, Index column) {
    const Add<double> add = [](double a, double b) { return round_to(Format::f32, a + b); };
    return column % 2 == 0 ? chain(std::move(terms), add) : pairwise(std::move(terms), add);
  });
  EXPECT_FALSE(reason(apart, 64).empty());
  EXPECT_TRUE(words(apart, 64).empty());
  Probed flushed = mean_of(Format::f16, [](std::vector<double> terms, Index) {
    for (double& x : terms) x = std::fabs(x) < smallest_normal(Format::f16) ? 0 : x;
    return chain(std::move(terms), Add<double>([](double a, double b) { return round_to(Format::f32, a + b); }));
  });
  EXPECT_NE(reason(flushed, 256).find("units alone do not come back"), std::string::npos) << reason(flushed, 256);
  Probed nowhere = mean_of(Format::f32, [](const std::vector<double>&, Index) { return std::nan(""); });
  EXPECT_NE(reason(nowhere, 64).find("out[0,0,0,0] = nan"), std::string::npos) << reason(nowhere, 64);
}

}  // namespace
}  // namespace attest

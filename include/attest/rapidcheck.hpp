// Problems of attest as RapidCheck generators: C++17, attest/generators.hpp and rapidcheck. docs/cpp.md walks through
// it.
//
//   rc::check("mine agrees with a plain loop", [] {
//     static const attest::generators::Domain domain(R"({"ops":["attention"], "dtypes":["f32"]})");
//     const auto problem = *attest::generators::problems(domain);
//     ...
//   });
#ifndef ATTEST_RAPIDCHECK_HPP
#define ATTEST_RAPIDCHECK_HPP

#include <attest/generators.hpp>

#include <rapidcheck/Gen.h>
#include <rapidcheck/Random.h>
#include <rapidcheck/seq/Create.h>
#include <rapidcheck/shrinkable/Create.h>

#include <ostream>

namespace attest {
namespace generators {
inline namespace abi1 {

// Generates any problem of a domain, by RapidCheck's random numbers; its size counts for nothing, since most problems
// are small anyway. A counterexample is shrunk by Problem::simpler() and printed as its line.
inline rc::Gen<Problem> problems(const Domain& domain) {
  return [domain](const rc::Random& random, int /*size*/) {
    rc::Random stream = random;
    const std::uint64_t seed = stream.next();
    const std::uint64_t number = stream.next() >> 32U;
    return rc::shrinkable::shrinkRecur(
        draw(domain, seed, number), [](const Problem& problem) { return rc::seq::fromContainer(problem.simpler()); });
  };
}

inline void showValue(const Problem& problem, std::ostream& out) { out << problem.text(); }

}  // namespace abi1
}  // namespace generators
}  // namespace attest

#endif

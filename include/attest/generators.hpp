// The random problems of attest for property tests of one's own: C++17, this header and plugin.h, and the library
// attest::generators of find_package(attest). docs/cpp.md walks through it; attest/rapidcheck.hpp makes RapidCheck
// generators of it.
//
//   const attest::generators::Domain domain(R"({"ops":["attention"], "dtypes":["f32"],
//   "supports":{"softcap":false}})"); const auto problem = attest::generators::draw(domain, 1, 0);
//   attest::generators::Call made(problem);
//   my_attention(attest::Attention(made.attention()));   // a view of attest/attest.hpp
//
// A problem is one line of text; its tensors are derived from that line, the same bits on every machine. Whether a
// result is right is for the caller's own property to say, or for `attest check PLUGIN --problem LINE`.
#ifndef ATTEST_GENERATORS_HPP
#define ATTEST_GENERATORS_HPP

#include <attest/plugin.h>

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#if defined(__GNUC__)
#define ATTEST_EXPORT __attribute__((visibility("default")))
#else
#define ATTEST_EXPORT
#endif

namespace attest {
namespace generators {
inline namespace abi1 {

// The problems that a kernel takes. Copies share their state, and may be used by several threads.
class ATTEST_EXPORT Domain {
 public:
  // `describe`: JSON as a subject's (docs/plugin.md), of which `ops` (its first one), `dtypes` and `supports` count.
  // `assume`: a predicate over the fields of a problem that narrows it, as in "lq<=lk && causal"; empty: none. Throws
  // std::invalid_argument, naming the fault.
  explicit Domain(const std::string& describe, const std::string& assume = {});

  struct State;
  const std::shared_ptr<const State>& state() const { return state_; }

 private:
  std::shared_ptr<const State> state_;
};

// One problem of a domain.
class ATTEST_EXPORT Problem {
 public:
  // Reads a problem from its line; it need not lie in the domain. Throws std::invalid_argument naming the key, its
  // value and what is allowed.
  Problem(const Domain& domain, const std::string& text);

  // "op=attention b=1 hq=2 ... seed=7", as `attest check SUBJECT --problem LINE` takes it.
  const std::string& text() const;
  // Returns the problems that are simpler in one respect and lie in the domain, the simplest first within each field.
  std::vector<Problem> simpler() const;

  friend bool operator==(const Problem& a, const Problem& b) { return a.text() == b.text(); }
  friend bool operator!=(const Problem& a, const Problem& b) { return !(a == b); }
  friend std::ostream& operator<<(std::ostream& out, const Problem& problem) { return out << problem.text(); }

  struct State;
  explicit Problem(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  const State& state() const { return *state_; }

 private:
  std::shared_ptr<const State> state_;
};

// Returns problem number `number` of the stream `seed`: the one that `attest fuzz --seed` draws for a subject that
// describes itself so. Depends on nothing else. Throws std::invalid_argument where no problem drawn satisfies the
// assumption.
ATTEST_EXPORT Problem draw(const Domain& domain, std::uint64_t seed, std::uint64_t number);

// The tensors of a problem, and its outputs, which hold NaN (integers: a pattern) until they are written.
class ATTEST_EXPORT Call {
 public:
  // Throws std::invalid_argument where they do not fit into memory.
  explicit Call(const Problem& problem);
  ~Call();
  Call(Call&& other) noexcept;
  Call& operator=(Call&& other) noexcept;

  // The call as a plug-in gets it; for the views of attest/attest.hpp. Lives as long as this. Throws std::logic_error
  // where it is of another operation.
  const attest_attention& attention() const;
  const attest_layer_norm& layer_norm() const;
  const attest_mha& mha() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace abi1
}  // namespace generators
}  // namespace attest

#endif

#pragma once
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/index.hpp"
#include "core/tensor.hpp"
#include "ops/problem.hpp"
#include "ops/shrink.hpp"
#include "ops/supports.hpp"
#include "oracle/outcome.hpp"

namespace attest::ops {

// One element of what a call gave, beside what a contract permits there.
struct Element {
  std::string_view tensor;  // "out"
  Witness index{};          // in that tensor
  double got = 0;
  double exact = 0, lo = 0, hi = 0;  // rounded as the tensor is
  bool number = true;                // false: NaN, or what is not finite, is expected
  oracle::Outcome outcome = oracle::Outcome::inside;
  std::vector<Index> at;  // where it lies, as Reading::coordinates() names it; -1 where it has no such place
};

// A promise, or a call, other than those that were declared and made, under which the same numbers may be right.
struct Departure {
  enum class Kind : std::uint8_t {
    format,    // a stage in another number format
    number,    // another number of the contract
    semantics  // another meaning of the contract or of the call
  };
  std::string words;  // "pv in f16", "the diagonal measured from the other corner"
  std::string_view stage;
  std::string_view group;  // the departures that are more or less of one thing
  double size = 0;         // within its group: how far from what was declared
  Kind kind = Kind::format;
  Contract contract;
  std::size_t variant = 0;  // the number of another call that the operation knows; 0: the call that was made
};

// Departures from the contract of an operation, of type C.
template <class C>
class DeparturesOf {
 public:
  // `check` throws Error where the numbers of a contract contradict each other. Keeps a reference to `declared`.
  DeparturesOf(const C& declared, void (*check)(const C&)) : declared_(declared), check_(check) {}

  // `change` of a copy of what was declared, if that changes it into what a kernel may declare.
  template <class Change>
  void add(Departure::Kind kind, std::string_view group, std::string_view stage, double size, std::string words,
           Change change) {
    C contract = declared_;
    change(contract);
    if (contract == declared_ || !is_consistent(contract)) return;
    all.push_back({std::move(words), stage, group, size, kind, std::move(contract), 0});
  }

  std::vector<Departure> all;

 protected:
  const C& declared_;

 private:
  [[nodiscard]] bool is_consistent(const C& contract) const {
    try {
      check_(contract);
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  void (*check_)(const C&);
};

// Tells whether a number is one of a format's, as a number that was rounded to it once is.
inline bool is_of(Format format, double x) { return !std::isfinite(x) || round_to(format, x) == x; }

// A call and what it gave, as the oracle of its operation sees it. Stands alone.
class Reading {
 public:
  Reading() = default;
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  virtual ~Reading() = default;

  // The cost of a look at every element, in multiply-adds or the operation's own unit.
  [[nodiscard]] virtual Index work() const = 0;
  // The names of the coordinates of a place, which follow "where": "batch", "column", "first open key".
  [[nodiscard]] virtual std::span<const std::string_view> coordinates() const = 0;
  // Elements of rows spread evenly, so that they cost no more than about `most_work`.
  [[nodiscard]] virtual std::vector<Element> elements(const Contract& contract, std::size_t variant,
                                                      Index most_work) const = 0;
  // Judges the same rows by the policy bound: fail, pass, or vacuous where nothing is said. A variant that makes no
  // other call of this one is this call. Numbers of a narrower output format must be numbers of that format, too.
  [[nodiscard]] virtual VerdictKind judge(const Contract& contract, std::size_t variant, Index most_work) const = 0;
  // Nearest first within each group. Those that a call of this kind cannot tell from what was declared may be left out.
  [[nodiscard]] virtual std::vector<Departure> departures(const Contract& declared) const = 0;
  // ---- stages on the way, which some subjects give as outputs
  // The stages that a subject gives, in the order in which they are computed: names of tensors of the call.
  [[nodiscard]] virtual std::vector<std::string_view> stages(const Supports&) const { return {}; }
  // The name of a stage in a report; and whether a fault or a departure with this stage lies behind the stages before
  // it, and no later than it.
  [[nodiscard]] virtual std::string_view stage_name(std::string_view stage) const { return stage; }
  [[nodiscard]] virtual bool lies_within(std::string_view /*fault*/, std::string_view /*stage*/) const { return false; }
  // A tensor for one stage, which this call must write once more, and the elements that a contract judges of it. Both
  // are asked in the order of stages(). Elements without a bound are left out.
  [[nodiscard]] virtual Tensor stage_tensor(std::string_view) const { return {}; }
  [[nodiscard]] virtual std::vector<Element> stage_elements(std::string_view, const Tensor&, const Contract&) const {
    return {};
  }

  // The stage that overflows if it does without what keeps it from that, where an element is not finite that should be;
  // empty where none would.
  [[nodiscard]] virtual std::string_view overflowing_stage(const Contract&, const Element&) const { return {}; }

  // The named policies that store what the contract's does, less its own, with their names.
  [[nodiscard]] virtual std::vector<Departure> policies(const Contract& declared) const = 0;
};

}  // namespace attest::ops

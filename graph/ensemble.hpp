#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "graph/program.hpp"

namespace attest::graph {

// Thresholds of docs/graphs.md section 3, calibrated on conforming runtimes.
inline constexpr double failing_z = 10,
                        failing_t = 2;  // by many; T times the largest of a member, where that is above 1
inline constexpr int few_members = 4, many_members = 16;
// The s of few over that of many at most, which have v of few in four times as many members.
inline constexpr double most_wider = 2;
static_assert(most_wider * most_wider * few_members == many_members);
inline constexpr double accepted_z = failing_z / most_wider,  // by few: many would not fail it
    accepted_t = failing_t / most_wider;
inline constexpr Index least_for_t = 48;  // elements

// The place of correct results of one output: reference +- a few deviations, element by element. An integer output must
// meet the reference exactly.
struct Spread {
  Array reference;                // one lane
  std::vector<double> deviation;  // s, by element; for integers 0, or infinite where the members do not agree
  bool wide = false;              // 8 s exceeds the range of the reference, 0 included, in over half of the elements
};

struct Witness {
  std::string output;
  Index element = 0;  // row-major
  double got = 0, expected = 0, deviation = 0;
};

// One element of a result, held against what is known of it.
struct Scored {
  Witness at;
  double z = 0;             // |out - reference| / s; infinite where it is no number, or an integer that differs
  bool determined = false;  // otherwise it may be anything
};
// `out` has the reference's type and shape. `name`: the output's.
Scored scored(const std::string& name, const Array& out, const Spread& spread, std::size_t element);

// The verdict on a runtime's results. Nothing is proven: a failure says that of thousands of conforming runs none came
// as far.
struct Judgement {
  // vacuous: no element could be judged, or all that could are wide.
  enum class Outcome : std::uint8_t { held, failed, vacuous };
  Outcome outcome = Outcome::held;
  double z = 0;             // the largest |out - reference| / s of all judged elements
  std::optional<double> t;  // root mean square of z, of least_for_t elements and more
  double t_limit = failing_t;
  Index judged = 0, undetermined = 0;
  int members = 0;                 // members that decided
  std::optional<Witness> witness;  // the element with the largest z, where that is above 0
  std::string mismatch;            // an output that is missing, or of another type or shape; z is infinite then
};

// Correct evaluations of a graph on one problem, in the formats of a precision: a reference in float64, one run that
// rounds to nearest, and members that round at random (arithmetic.hpp). From
//   v = mean_i (m_i - r)^2 + (rn - r)^2,  s^2 = v + w(v)/16 + (u_out r)^2/3 + floor^2,
// v the largest of that of the precision and, where many members decide, those of Precision::that_store_less; w(v) the
// mean of what is finite of v over the last axis, over the tensor where that has fewer than 4 elements; floor the least
// normal number, for f16 half the least subnormal one. The same seed gives the same bits.
// Where few errors are shared by many elements (the mean of a single row), T is as uncertain as each of them: the
// members' T says how large it may be.
class Ensemble {
 public:
  // `program` must live as long. Evaluates nothing yet. `stop`: as Program::run has it.
  Ensemble(const Program& program, Feeds feeds, Precision precision, std::uint64_t seed,
           std::function<bool()> stop = {});

  [[nodiscard]] const Program& program() const noexcept { return program_; }

  // The spreads by `members` of few_members or many_members. Throws Error(usage) as Program::run.
  const std::vector<Spread>& spreads(int members);

  // The T at which many members fail a runtime. Throws as spreads.
  double t_limit();

  // The verdict on what a runtime gave, in the model's order of outputs, one lane each. Few members may accept;
  // whatever they do not accept, many decide. Throws as spreads.
  Judgement judge(const std::vector<Array>& outputs);

 private:
  // The spread of runs of one precision around the reference.
  struct Offsets {
    std::vector<double> nearest;               // rn - r
    std::vector<std::vector<double>> members;  // m_i - r, of each
  };
  struct Gathered {  // the runs of one output
    Array reference;
    Offsets own;
    std::vector<Offsets> lesser;  // one for each precision that stores less, once many members were asked for
    std::vector<bool> agreed;     // for integers
  };
  void gather(int upto);
  void gather_lesser();
  [[nodiscard]] static std::vector<double> units_of(const Gathered& gathered, int members);
  [[nodiscard]] Spread spread_of(const Gathered& gathered, int members) const;
  [[nodiscard]] double largest_t(const std::vector<Spread>& spreads) const;
  Judgement judge_by(const std::vector<Array>& outputs, int members);

  const Program& program_;
  Feeds feeds_;
  Precision precision_;
  std::uint64_t seed_;
  std::function<bool()> stop_;
  int gathered_members_ = 0;
  std::vector<Gathered> gathered_;
  std::vector<Spread> few_, many_;
  double many_t_ = 0;  // the largest T of a member or rn, by many_
};

}  // namespace attest::graph

#include "ops/plain.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/number_text.hpp"
#include "core/problem_items.hpp"
#include "core/rng.hpp"
#include "generators/accepted.hpp"
#include "generators/edges.hpp"
#include "generators/source.hpp"
#include "generators/weighted.hpp"
#include "oracle/outcome.hpp"
#include "properties/guarded.hpp"

namespace attest::ops {
namespace {

using oracle::Outcome;
using properties::CallFailed;
using properties::Stopwatch;

enum : std::size_t { guards, policy_bound, repeat };

bool is_extent(const Field& field) { return field.group == FieldGroup::shape && field.kind == FieldKind::integer; }

// ---- words ----------------------------------------------------------------------------------------------------------

void read_item(const Op& op, Problem& problem, std::string_view key, std::string_view value) {
  if (key == "op") {
    if (value != op.name())
      throw usage_error(fmt::format("problem: op={} is another operation: here it must be {}", value, op.name()));
  } else if (const Field* field = op.find_field(key)) {
    read_value(*field, problem, value);
  } else {
    throw usage_error(fmt::format("problem: {} has no field '{}'", op.name(), key));
  }
}

// ---- drawing --------------------------------------------------------------------------------------------------------

class PlainDomain final : public Domain {
 public:
  PlainDomain(const Plain& op, std::vector<Format> dtypes) : op_(op), dtypes_(std::move(dtypes)) {
    if (dtypes_.empty()) throw usage_error(fmt::format("the subject offers no dtype for {}", op.name()));
    for (const Field& field : op.fields()) ranges_.push_back({field.lo, field.hi});
  }

  [[nodiscard]] Drawing draw(std::uint64_t seed, std::uint64_t case_number, std::uint64_t repeat) const override {
    const std::uint64_t plan = case_number / repeat;
    for (std::uint64_t attempt = 0; attempt < most_attempts; ++attempt) {
      const auto source = [&](std::uint64_t number, std::uint64_t what) {
        return Source(extend(extend(extend(extend(mix(seed), op_stream), number), what), attempt));
      };
      Problem problem = draw_once(source(plan, 0), source(case_number, 1));
      if (accepts(problem)) return {std::move(problem), attempt};
    }
    throw usage_error(fmt::format("none of {} problems drawn satisfies the assumption: widen --assume", most_attempts));
  }
  [[nodiscard]] const std::vector<Format>& dtypes() const noexcept override { return dtypes_; }
  [[nodiscard]] bool narrows(std::string_view name) const noexcept override {
    const Field* field = op_.find_field(name);
    return field != nullptr && field->drawn && field->kind != FieldKind::real && field->kind != FieldKind::seed;
  }
  void narrow(std::string_view name, Index lo, Index hi) override {
    if (!narrows(name)) throw usage_error(fmt::format("'{}' is no field that can be narrowed", name));
    Range& range = ranges_[static_cast<std::size_t>(op_.find_field(name) - op_.fields().data())];
    range = intersect(range, {lo, hi});
    if (range.empty()) throw usage_error(fmt::format("no value of {} is left", name));
  }
  void narrow_form(std::string_view form, const std::function<bool(std::string_view)>&) override {
    throw usage_error(fmt::format("{} has no form '{}'", op_.name(), form));
  }
  void assume(std::function<bool(const Problem&)> predicate) override { predicates_.push_back(std::move(predicate)); }
  [[nodiscard]] bool accepts(const Problem& problem) const override {
    return std::ranges::all_of(predicates_, [&](const auto& holds) { return holds(problem); });
  }

 private:
  static constexpr std::uint64_t op_stream = 0x706C61696E;

  // The shape from one source, which the cases of a plan share, all else from the other.
  [[nodiscard]] Problem draw_once(Source shape, Source rest) const {
    constexpr std::array scales{1.0, 0.5, -2.0, 0.75, 3.0};
    Problem problem = op_.with_dtype(
        op_.defaults(), dtypes_[static_cast<std::size_t>(shape.below(static_cast<Index>(dtypes_.size())))]);
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      const Field& field = op_.fields()[i];
      const Range& range = ranges_[i];
      if (field.kind == FieldKind::seed) {
        field.set(problem, std::bit_cast<Index>(rest.next()));
      } else if (field.kind == FieldKind::real) {
        field.set_real(problem, rest.pick(scales));
      } else if (field.drawn && field.kind == FieldKind::integer) {
        const Index most = shape.log_uniform(std::max<Index>(range.hi, 1));
        const Index n = field.edges.empty() ? shape.log_uniform(most) : edge_biased(shape, field.edges, most);
        field.set(problem, std::clamp(n, range.lo, range.hi));
      } else if (field.drawn) {
        field.set(problem,
                  field.weights.empty() ? rest.between(range.lo, range.hi) : weighted(rest, field.weights, range));
      }
    }
    return problem;
  }

  const Plain& op_;
  std::vector<Format> dtypes_;
  std::vector<Range> ranges_;  // by the position of the field
  std::vector<std::function<bool(const Problem&)>> predicates_;
};

// ---- one call -------------------------------------------------------------------------------------------------------

// Its tensors, and what stands in the output.
class PlainCall {
 public:
  PlainCall(const Plain& op, const Problem& problem)
      : op_(op), problem_(problem), inputs_(op.inputs(problem)), out_(op.output(problem)) {
    out_.poison();
  }
  PlainCall(const PlainCall&) = delete;
  PlainCall& operator=(const PlainCall&) = delete;

  [[nodiscard]] const Problem& problem() const noexcept { return problem_; }
  [[nodiscard]] const std::vector<Plain::Input>& inputs() const noexcept { return inputs_; }
  [[nodiscard]] const Tensor& out() const noexcept { return out_; }
  [[nodiscard]] Call call() const { return op_.call(problem_, inputs_, out_); }

  // Calls visit(index, permitted) for every element.
  template <class Visit>
  void walk(const Contract& contract, Visit visit) const {
    std::array<Index, 4> n{1, 1, 1, 1};
    std::ranges::copy(out_.shape(), n.begin());
    for (Index i = 0; i < n[0]; ++i)
      for (Index j = 0; j < n[1]; ++j)
        for (Index k = 0; k < n[2]; ++k)
          for (Index l = 0; l < n[3]; ++l) visit(element(contract, {i, j, k, l}));
  }
  [[nodiscard]] Permitted element(const Contract& contract, const std::array<Index, 4>& at) const {
    const Plain::Bound bound = op_.bound(problem_, inputs_, at);
    oracle::Enclosure e;
    e.y = bound.y;
    e.lo = bound.y - bound.radius;
    e.hi = bound.y + bound.radius;
    const oracle::Rounding round{op_.format_of(contract), op_.dtype(problem_), false};
    const double got = out_.at(at[0], at[1], at[2], at[3]);
    Permitted permitted{"out", at, e.y, round(e.lo), round(e.hi)};
    permitted.outcome = judge_element(e, round, got);
    if (permitted.outcome == Outcome::outside) {
      permitted.evidence = evidence_of(e, round, got);
      permitted.evidence->tensor = "out";
      permitted.evidence->index = at;
    }
    return permitted;
  }
  [[nodiscard]] Verdict judge(const Contract& contract) const {
    Counts counts;
    std::optional<Evidence> first;
    walk(contract, [&](Permitted permitted) {
      ++counts.judged;
      if (!first && permitted.outcome == Outcome::outside) first = std::move(permitted.evidence);
    });
    return first ? Verdict::fail(std::move(*first), counts) : Verdict::pass(counts);
  }

 private:
  const Plain& op_;
  const Problem problem_;
  const std::vector<Plain::Input> inputs_;
  Tensor out_;
};

class PlainTrial final : public Trial {
 public:
  PlainTrial(const Plain& op, const Problem& problem, const Contract& contract, Subject& subject)
      : op_(op), problem_(problem), contract_(contract), subject_(subject) {}

  void base() override {
    if (!base_) base_ = ask();
    if (base_->result.status != CallStatus::done) throw CallFailed(base_->result);
  }
  void peer_base() override {}  // no law of such an operation asks a peer
  Verdict check(const Law& law) override {
    base();
    if (law.own == guards)
      return base_->violation ? Verdict::fail(*base_->violation) : Verdict::pass({.judged = base_->call->out().size()});
    if (law.own == repeat) return check_repeat();
    const Stopwatch watch(elapsed_.oracle);
    return base_->call->judge(contract_);
  }
  [[nodiscard]] std::int64_t subject_calls() const noexcept override { return subject_calls_; }
  [[nodiscard]] properties::Trial::Nanoseconds elapsed() const noexcept override { return elapsed_; }

 private:
  struct Answer {
    std::unique_ptr<PlainCall> call;
    CallResult result;
    std::optional<Evidence> violation;
  };

  Answer ask() {
    Answer answer;
    {
      const Stopwatch watch(elapsed_.values);
      answer.call = std::make_unique<PlainCall>(op_, problem_);
    }
    std::vector<attest::Inputs::Named> tensors;
    for (const Plain::Input& input : answer.call->inputs()) tensors.push_back({input.name, input.tensor});
    properties::Snapshot before({&tensors, 1});
    {
      const Stopwatch watch(elapsed_.subject);
      answer.result = subject_.run_one(answer.call->call());
    }
    ++subject_calls_;
    const std::optional<Evidence> modified = before.restore(tensors);
    if (answer.result.status != CallStatus::done) return answer;
    answer.violation = properties::output_violation(answer.call->out(), "out");
    if (!answer.violation) answer.violation = modified;
    return answer;
  }
  Verdict check_repeat() {
    const Answer again = ask();
    if (again.result.status != CallStatus::done) throw CallFailed(again.result);
    std::optional<Evidence> first;
    base_->call->walk(contract_, [&](const Permitted& element) {
      const auto& at = element.index;
      const double got = again.call->out().at(at[0], at[1], at[2], at[3]),
                   before = base_->call->out().at(at[0], at[1], at[2], at[3]);
      if (first || std::bit_cast<std::uint64_t>(got) == std::bit_cast<std::uint64_t>(before)) return;
      first = Evidence{"out", at, got, before, before, before, INFINITY, Wrong::finite, "the same call again"};
    });
    return first ? Verdict::fail(std::move(*first)) : Verdict::pass({.judged = again.call->out().size()});
  }

  const Plain& op_;
  const Problem problem_;
  const Contract contract_;
  Subject& subject_;
  properties::Trial::Nanoseconds elapsed_;
  std::optional<Answer> base_;
  std::int64_t subject_calls_ = 0;
};

class PlainExchange final : public Exchange {
 public:
  PlainExchange(const Plain& op, const Problem& problem) : op_(op), call_(op, problem) {}

  [[nodiscard]] const Problem& problem() const noexcept override { return call_.problem(); }
  [[nodiscard]] std::vector<NamedTensor> inputs() const override {
    std::vector<NamedTensor> all;
    for (const Plain::Input& input : call_.inputs()) all.push_back({input.name, &input.tensor});
    return all;
  }
  [[nodiscard]] std::vector<NamedTensor> outputs() const override { return {{"out", &call_.out()}}; }
  [[nodiscard]] std::vector<std::pair<std::string_view, double>> numbers() const override {
    return op_.numbers(call_.problem());
  }
  [[nodiscard]] Call call() const override { return call_.call(); }
  [[nodiscard]] Verdict judge(const Contract& contract) override { return call_.judge(contract); }
  [[nodiscard]] Permitted element(const Contract& contract, std::string_view output,
                                  const std::array<Index, 4>& index) override {
    if (output != "out") throw internal_error("a call has no output " + std::string(output));
    return call_.element(contract, index);
  }
  [[nodiscard]] Walked judged() const override { return {1, 1}; }
  Walked walk(const Contract& contract, Index, const Visit& visit) override {
    call_.walk(contract, visit);
    return judged();
  }
  Verdict against(const Contract&, Subject&, const Contract&, bool, bool) override {
    throw usage_error(fmt::format("saved calls of {} are not compared with a subject in this version", op_.name()));
  }

 private:
  const Plain& op_;
  PlainCall call_;
};

}  // namespace

Plain::Plain(std::string_view name, std::vector<Field> fields, Problem defaults)
    : name_(name), fields_(std::move(fields)), defaults_(std::move(defaults)) {
  for (const Field& field : fields_) {
    if (!is_extent(field)) continue;
    const auto rungs = [&field](const Problem&, const Supports&) { return Rungs{std::max<Index>(field.lo, 1), 1}; };
    const auto narrowed = [&field](Problem problem, Index n, const Witness&) {
      field.set(problem, n);
      return problem;
    };
    dimensions_.push_back({field.name, field.get, field.set, rungs, narrowed});
  }
}

std::string Plain::to_text(const Problem& problem) const {
  std::string text = fmt::format("op={}", name_);
  for (const Field& field : fields_)
    if (field.always_printed || !field.is_default(problem))
      text += fmt::format(" {}={}", field.name, value_text(field, problem));
  return text;
}
Problem Plain::problem_from_text(std::string_view line) const {
  Problem problem = defaults_;
  read_problem_line(line, [&](std::string_view key, std::string_view value) { read_item(*this, problem, key, value); });
  validate(problem);
  return problem;
}
nlohmann::ordered_json Plain::to_json(const Problem& problem) const {
  nlohmann::ordered_json object{{"op", name_}};
  for (const Field& field : fields_) {
    if (!field.always_printed && field.is_default(problem)) continue;
    if (field.kind == FieldKind::integer)
      object[std::string(field.name)] = field.get(problem);
    else
      object[std::string(field.name)] = value_text(field, problem);
  }
  return object;
}
Problem Plain::problem_from_json(const nlohmann::json& object, const std::string&) const {
  Problem problem = defaults_;
  read_problem_items(
      object, "none", [&](std::string_view key, const std::string& value) { read_item(*this, problem, key, value); },
      [&](const std::string&) { throw usage_error(fmt::format("problem: {} has no edits", name_)); });
  validate(problem);
  return problem;
}
void Plain::validate(const Problem& problem) const {
  for (const Field& field : fields_) {
    if (field.kind == FieldKind::real || field.kind == FieldKind::seed) continue;
    const Index value = field.get(problem);
    if (value < field.lo || value > field.hi)
      throw usage_error(fmt::format("problem: {} {} is outside {}..{}", field.name, value, field.lo, field.hi));
  }
  if (const Format format = dtype(problem); !attest::traits(format).in_memory())
    throw usage_error(fmt::format("problem: dtype {} never lies in memory: use f32", attest::name(format)));
}

std::string Plain::to_text(const Policy& policy) const { return std::string(attest::name(storage(policy))); }
Policy Plain::policy_from_text(std::string_view text) const {
  const auto format = format_from_name(text);
  if (!format || !attest::traits(*format).in_memory())
    throw usage_error(fmt::format("policy '{}': {} is stored and computed in one of {}", text, name_,
                                  attest::names_of(stored_formats)));
  return policy_in(*format);
}
Policy Plain::policy(const Contract& contract) const { return policy_in(format_of(contract)); }
nlohmann::ordered_json Plain::to_json(const Contract& contract) const {
  return {{"policy", attest::name(format_of(contract))}};
}
Contract Plain::contract_from_json(const nlohmann::json& object, const Policy& policy) const {
  if (!object.is_object()) throw usage_error("contract: it must be a JSON object");
  for (const auto& [key, value] : object.items())
    if (key != "policy") throw usage_error(fmt::format("contract: {} promises its policy alone, no {}", name_, key));
  return contract_in(storage(policy));
}
std::vector<NamedPolicy> Plain::named_policies() const {
  std::vector<NamedPolicy> all;
  for (const Format format : {Format::f32, Format::f16, Format::bf16, Format::f64})
    all.push_back({attest::name(format), "stored and computed in it", policy_in(format)});
  return all;
}
Format Plain::stage(const Policy& policy, std::size_t) const { return storage(policy); }
void Plain::set_stage(Policy& policy, std::size_t, Format format) const { policy = policy_in(format); }

std::uint64_t Plain::seed(const Problem& problem) const {
  for (const Field& field : fields_)
    if (field.kind == FieldKind::seed) return std::bit_cast<std::uint64_t>(field.get(problem));
  return 0;
}
Index Plain::work(const Problem& problem) const {
  Index product = 1;
  for (const Dimension& dimension : dimensions_)
    if (__builtin_mul_overflow(product, dimension.get(problem), &product)) return std::numeric_limits<Index>::max();
  return product;
}
bool Plain::is_long(const Problem& problem) const {
  constexpr Index long_rows = 256;
  return work(problem) >= long_rows;
}
bool Plain::offered(const SubjectInfo& info) const { return std::ranges::find(info.ops, name_) != info.ops.end(); }
Contract Plain::contract(const SubjectInfo& info, const Problem& problem) const {
  return contract(info, dtype(problem));
}
Contract Plain::contract(const SubjectInfo& info, Format dtype) const {
  if (std::ranges::find(info.dtypes, dtype) == info.dtypes.end())
    throw usage_error(fmt::format("{} does not offer {} in {}", info.name, name_, attest::name(dtype)));
  return contract_in(dtype);
}
Contract Plain::with_policy(Contract, const Policy& policy) const { return contract_in(storage(policy)); }
Contract Plain::contract_beside(const Problem& problem, const SubjectInfo& info, const Contract& given) const {
  return format_of(given) == dtype(problem) ? given : contract(info, problem);
}
std::optional<std::string> Plain::declined(const Problem& problem, const Supports&,
                                           std::span<const Format> dtypes) const {
  if (std::ranges::find(dtypes, dtype(problem)) != dtypes.end()) return std::nullopt;
  return fmt::format("dtype {} is not offered", attest::name(dtype(problem)));
}
std::unique_ptr<Domain> Plain::domain(const Supports&, std::vector<Format> dtypes) const {
  return std::make_unique<PlainDomain>(*this, std::move(dtypes));
}
std::vector<Problem> Plain::canaries(const Supports& supports, Format dtype) const {
  std::vector<Problem> all;
  for (const Index most : {1, 2, 8}) all.push_back(capped(with_dtype(defaults_, dtype), most, std::nullopt, supports));
  return all;
}
std::unique_ptr<Trial> Plain::trial(const Problem& problem, const Contract& contract, Subject& subject,
                                    Subject*) const {
  return std::make_unique<PlainTrial>(*this, problem, contract, subject);
}
std::vector<Law> Plain::laws() const {
  using properties::Asks, properties::Claim, properties::Kind;
  return {{this, "guards", "writes(call) = elements of out",
           "every output element is written, no byte around it is, and no input is modified", Kind::guard,
           Asks::base_call, Claim::none, guards},
          {this, "policy-bound", "out lies in [y - r, y + r]",
           "every element is what a kernel that computes in the policy's format could have returned", Kind::bound,
           Asks::base_call, Claim::element, policy_bound},
          {this, "repeat", "f(x) = f(x)", "the same call again", Kind::exact, Asks::base_plan, Claim::none, repeat}};
}
std::unique_ptr<Exchange> Plain::exchange(const Problem& problem) const {
  return std::make_unique<PlainExchange>(*this, problem);
}
PythonReference Plain::python(const Exchange&, const Contract&) const {
  return {numpy(), {}, [](std::string_view) { return std::string(); }};
}
std::array<Index, 4> Plain::witness_extents(const Problem& problem) const {
  std::array<Index, 4> n{1, 1, 1, 1};
  const Tensor out = output(problem);
  std::ranges::copy(out.shape(), n.begin());
  return n;
}
Problem Plain::capped(Problem problem, Index most, const std::optional<Witness>&, const Supports& supports) const {
  for (const Dimension& dimension : dimensions_) {
    const Index cap = dimension.rungs(problem, supports).up(most);
    if (dimension.get(problem) > cap) dimension.set(problem, cap);
  }
  return problem;
}
std::span<const Op::Neighbours> Plain::further_neighbours() const {
  static constexpr Neighbours neighbours[] = {seed_at_zero};
  return neighbours;
}
std::vector<Escape> Plain::escapes(const Problem& shape, const Problem& original) const {
  std::vector<Escape> found;
  const auto add = [&](Problem problem, const char* change, bool drawn, bool likely) {
    found.push_back({{std::move(problem), change}, drawn, likely});
  };
  add(shape, "as it is", false, true);
  Problem kept = shape, reseeded = shape;
  for (const Field& field : fields_) {
    if (field.group == FieldGroup::values || field.group == FieldGroup::scaling) field.copy(original, kept);
    if (field.kind == FieldKind::seed) field.set(reseeded, field.get(shape) + 1);
  }
  add(kept, "the values it began with", true, false);
  add(reseeded, "another seed", true, false);
  return found;
}
std::string Plain::shape_class(const Problem& problem) const {
  std::string letters;
  for (const Dimension& dimension : dimensions_) letters += size_class(dimension.get(problem));
  return letters;
}
std::vector<Trait> Plain::traits() const {
  std::vector<Trait> all;
  for (const Field* field : fields_by_merit(*this)) all.push_back(trait_of(*field));
  return all;
}

}  // namespace attest::ops

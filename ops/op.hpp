#pragma once
#include <any>
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/call.hpp"
#include "core/documents.hpp"
#include "core/subject.hpp"
#include "core/verdict.hpp"
#include "generators/models.hpp"
#include "ops/exchange.hpp"
#include "ops/field.hpp"
#include "ops/grading.hpp"
#include "ops/probe.hpp"
#include "ops/problem.hpp"
#include "ops/reading.hpp"
#include "ops/shrink.hpp"
#include "ops/subgraph.hpp"
#include "ops/supports.hpp"
#include "properties/property.hpp"
#include "properties/trial.hpp"

namespace attest {
struct Coverage;
}

namespace attest::ops {

// ---- drawing --------------------------------------------------------------------------------------------------------

// A problem, and how many the domain's predicates turned away before it.
struct Drawing {
  Problem problem;
  std::uint64_t rejected = 0;
};

// The problems of an operation that may be drawn (generators/domain.hpp).
class Domain {
 public:
  virtual ~Domain() = default;
  // The same as attest::draw_counted(). Throws Error(usage) if no problem drawn satisfies the predicates.
  [[nodiscard]] virtual Drawing draw(std::uint64_t seed, std::uint64_t case_number, std::uint64_t repeat) const = 0;
  [[nodiscard]] virtual const std::vector<Format>& dtypes() const noexcept = 0;
  // Tells whether narrow() takes this field.
  [[nodiscard]] virtual bool narrows(std::string_view field) const noexcept = 0;
  // Keeps lo..hi of a drawn integer, label or flag. Throws Error(usage) if nothing is left.
  virtual void narrow(std::string_view field, Index lo, Index hi) = 0;
  // Keeps those values of a form for which `keeps` holds. Throws Error(usage) if there is no such form, or if none is
  // left.
  virtual void narrow_form(std::string_view form, const std::function<bool(std::string_view)>& keeps) = 0;
  // Chooses small shapes, those of models, or both; SizeRegime::both at first. An operation without such shapes draws
  // its own.
  virtual void draw_sizes(SizeRegime /*sizes*/) {}
  // Tells whether its problems are said in forms.
  [[nodiscard]] virtual bool has_forms() const noexcept { return false; }
  // Draws that value of a form only where `says` holds.
  virtual void say_form_where(std::string_view /*form*/, std::string_view /*value*/,
                              std::function<bool(const Problem&)> /*says*/) {}
  // Draws again until `predicate` holds.
  virtual void assume(std::function<bool(const Problem&)> predicate) = 0;
  // The same of what `predicate`, of extents and dtype alone, turns away: a draw may end once these are known. It
  // changes nothing of what is drawn.
  virtual void assume_of_shape(std::function<bool(const Problem&)> /*predicate*/) {}
  // Likewise of every problem of fewer than `least` multiply-adds, or of more than `most`.
  virtual void assume_work(double /*least*/, double /*most*/) {}
  // Tells whether every predicate holds.
  [[nodiscard]] virtual bool accepts(const Problem& problem) const = 0;
};

// ---- laws -----------------------------------------------------------------------------------------------------------

// A law of some operation, told as properties::Property tells that of attention.
struct Law {
  const Op* op;
  std::string_view name, statement, doc;
  properties::Kind kind;
  properties::Asks asks;
  properties::Claim claim;
  std::size_t own;  // its position among those of its operation

  [[nodiscard]] constexpr bool base_call() const noexcept { return asks == properties::Asks::base_call; }
  [[nodiscard]] constexpr bool keeps_plan() const noexcept { return asks != properties::Asks::anything; }
  [[nodiscard]] std::optional<std::string> not_applicable(const Problem&, const Contract&, const SubjectInfo&) const;
};

// A problem under test on one subject (properties/trial.hpp).
class Trial {
 public:
  virtual ~Trial() = default;
  // Makes the problem's own call, once; that of the peer, which is under test too. Throw CallFailed.
  virtual void base() = 0;
  virtual void peer_base() = 0;
  // The verdict of a law of its operation. Throws CallFailed.
  virtual Verdict check(const Law& law) = 0;
  [[nodiscard]] virtual std::int64_t subject_calls() const noexcept = 0;
  [[nodiscard]] virtual properties::Trial::Nanoseconds elapsed() const noexcept = 0;
};

// ---- what findings are told by --------------------------------------------------------------------------------------

// A problem whose traits are asked: results that several of them need are computed once. Both arguments must outlive
// it.
class Looked {
 public:
  Looked(const Problem& problem, const Supports& supports) : problem(problem), supports(supports) {}
  const Problem& problem;
  const Supports& supports;
  // An operation's own notes on the problem.
  template <class Notes>
  [[nodiscard]] Notes& notes() const {
    if (!notes_.has_value()) notes_.emplace<Notes>();
    return *std::any_cast<Notes>(&notes_);
  }

 private:
  mutable std::any notes_;
};

// One thing that a learned predicate may say of a problem: a field of the field table, a relation derived from it, or
// what its masks and values come to.
struct Trait {
  // Says how it is compared: below or above a number; with a label; as true or false; as a remainder that is 0 or not.
  enum class Kind : std::uint8_t { number, label, flag, remainder };
  std::string name;  // "lk", "q_layout", "lq<lk", "d%8", "k_align" (bytes to which k's base and rows are aligned)
  Kind kind = Kind::number;
  std::span<const std::string_view> labels;  // the values of a label; a form may get more of them
  double plain = 0;                          // the value of a problem in which it plays no part
  std::function<double(const Looked&)> get;  // labels by index, flags 0 or 1
  const Op* op = nullptr;                    // the operation that has this trait; nullptr: all have it
};
Trait trait_of(const Field& field);
// The fields that are traits, in the order of Field::trait.
std::vector<const Field*> fields_by_merit(const Op& op);

// A policy that has a name.
struct NamedPolicy {
  std::string_view name, doc;
  Policy policy;
};

// ---- an operation ---------------------------------------------------------------------------------------------------

// All that rooms above ask of an operation. There is one object of each, for ever.
class Op {
 public:
  Op() = default;
  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;
  virtual ~Op() = default;

  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  // Tells whether a type is that of its problems, policies or contracts.
  [[nodiscard]] virtual bool owns(const std::type_info& type) const noexcept = 0;
  // The fields in print order.
  [[nodiscard]] virtual std::span<const Field> fields() const = 0;
  [[nodiscard]] const Field* find_field(std::string_view name) const;
  // A problem that says nothing of any field.
  [[nodiscard]] virtual const Problem& defaults() const = 0;

  // ---- words: what ops/problem.hpp declares
  [[nodiscard]] virtual std::string to_text(const Problem& problem) const = 0;
  [[nodiscard]] virtual Problem problem_from_text(std::string_view line) const = 0;
  [[nodiscard]] virtual nlohmann::ordered_json to_json(const Problem& problem) const = 0;
  [[nodiscard]] virtual Problem problem_from_json(const nlohmann::json& object, const std::string& folder) const = 0;
  virtual void validate(const Problem& problem) const = 0;
  [[nodiscard]] virtual std::string to_text(const Policy& policy) const = 0;
  [[nodiscard]] virtual Policy policy_from_text(std::string_view text) const = 0;
  [[nodiscard]] virtual Format storage(const Policy& policy) const = 0;
  [[nodiscard]] virtual Policy policy(const Contract& contract) const = 0;
  [[nodiscard]] virtual nlohmann::ordered_json to_json(const Contract& contract) const = 0;
  [[nodiscard]] virtual Contract contract_from_json(const nlohmann::json& object, const Policy& policy) const = 0;

  // ---- stages of its policies, in the order of stages_of(name()) (core/policy_stages.hpp)
  [[nodiscard]] virtual std::vector<NamedPolicy> named_policies() const = 0;
  [[nodiscard]] virtual Format stage(const Policy& policy, std::size_t n) const = 0;
  virtual void set_stage(Policy& policy, std::size_t n, Format format) const = 0;
  // The stages that a kernel may compute in a narrower format than was asked for; a report names the formats that fit
  // them (engine/effective.hpp).
  [[nodiscard]] virtual std::vector<std::size_t> narrowable() const { return {}; }
  // The contract with a number that costs as much as a narrower stage, in words: numbers that fit it tell of no
  // precision.
  [[nodiscard]] virtual std::vector<std::pair<std::string, Contract>> relaxed(const Contract&) const { return {}; }

  // ---- what a problem is
  [[nodiscard]] virtual Format dtype(const Problem& problem) const = 0;
  [[nodiscard]] virtual std::uint64_t seed(const Problem& problem) const = 0;
  [[nodiscard]] virtual Index work(const Problem& problem) const = 0;
  // The unit of work(), in the plural.
  [[nodiscard]] virtual std::string_view unit_of_work() const noexcept { return "multiply-adds"; }
  // Tells whether rows are so long that kernels go over them bit by bit, and that in words: "with 256 keys or more".
  [[nodiscard]] virtual bool is_long(const Problem& problem) const = 0;
  [[nodiscard]] virtual std::string_view long_in_words() const noexcept = 0;
  [[nodiscard]] virtual const std::vector<FormChoice>& forms(const Problem& problem) const;
  virtual void clear_forms(Problem&) const {}
  virtual void clear_edits(Problem& problem) const = 0;
  // The file that its values are in, or none; the problem with that file's plain name; and the problem standing alone,
  // if it has such a file and no more than `most` elements of it.
  [[nodiscard]] virtual std::string captured_file(const Problem&) const { return {}; }
  [[nodiscard]] virtual Problem portable(Problem problem) const { return problem; }
  [[nodiscard]] virtual std::optional<Problem> literal(const Problem&, Index /*most*/) const { return std::nullopt; }
  // The problem of a call that was seen, every number of it set by hand; nullopt if they are too many. A call does not
  // tell the names of values and masks; they are those of the problem `like` that it was made of, if one is given.
  [[nodiscard]] virtual std::optional<Problem> recorded(const Call&, const Problem* /*like*/) const {
    return std::nullopt;
  }

  // ---- what subjects say of it
  [[nodiscard]] virtual bool offered(const SubjectInfo& info) const = 0;
  [[nodiscard]] virtual const std::vector<Format>& dtypes(const SubjectInfo& info) const = 0;
  [[nodiscard]] virtual bool policy_declared(const SubjectInfo& info) const = 0;
  // The contract of the problem's dtype and forms. Throws Error(usage) if the subject does not offer the dtype.
  [[nodiscard]] virtual Contract contract(const SubjectInfo& info, const Problem& problem) const = 0;
  // The same of a dtype alone.
  [[nodiscard]] virtual Contract contract(const SubjectInfo& info, Format dtype) const = 0;
  // The contract with another policy. Throws Error(usage) where that contradicts the contract's numbers.
  [[nodiscard]] virtual Contract with_policy(Contract contract, const Policy& policy) const = 0;
  // The contract of a problem beside one that has `given`: that of its own dtype and forms, but for a policy that the
  // user gave.
  [[nodiscard]] virtual Contract contract_beside(const Problem& problem, const SubjectInfo& info,
                                                 const Contract& given) const = 0;
  // The contracts of its forms, in SubjectInfo's order.
  [[nodiscard]] virtual std::vector<Contract> form_contracts(const SubjectInfo&) const { return {}; }
  // Why a subject is not to be asked it (core/supports.hpp).
  [[nodiscard]] virtual std::optional<std::string> declined(const Problem& problem, const Supports& supports,
                                                            std::span<const Format> dtypes) const = 0;

  // ---- drawing and running
  // Throws Error(usage) if that leaves no problem at all.
  [[nodiscard]] virtual std::unique_ptr<Domain> domain(const Supports& supports, std::vector<Format> dtypes) const = 0;
  // Problems that any conforming subject answers, the smallest first: with one of these an instance shows that it is
  // sound.
  [[nodiscard]] virtual std::vector<Problem> canaries(const Supports& supports, Format dtype) const = 0;
  // Throws what materialising throws. `peer` may be null.
  [[nodiscard]] virtual std::unique_ptr<Trial> trial(const Problem& problem, const Contract& contract, Subject& subject,
                                                     Subject* peer) const = 0;
  // Guards, result class, exact laws, the policy bound, laws over several problems, the statistical one.
  [[nodiscard]] virtual std::vector<Law> laws() const = 0;
  [[nodiscard]] virtual std::optional<std::string> not_applicable(const Law& law, const Problem& problem,
                                                                  const Contract& contract,
                                                                  const SubjectInfo& info) const = 0;

  // ---- two subjects
  // Both with what both take alone, of `dtypes`, which both offer, and under `policy` if one is given: it takes the
  // place of those that each promises of its storage. Their contracts stay their own. Throws Error(usage) if they take
  // no problem in common.
  [[nodiscard]] virtual std::pair<SubjectInfo, SubjectInfo> narrowed_to_both(const SubjectInfo& a, const SubjectInfo& b,
                                                                             const std::vector<Format>& dtypes,
                                                                             const std::optional<Policy>& policy) const;

  // ---- one call apart from a trial (ops/exchange.hpp). Without one, an operation throws Error(usage), in one sentence
  // The call of a problem, its outputs poisoned. Throws what materialising throws.
  [[nodiscard]] virtual std::unique_ptr<Exchange> exchange(const Problem& problem) const;
  // A call that was saved elsewhere, from arrays of its inputs and outputs. Throws Error(usage): one sentence for a
  // name that is missing, an input that nothing asks for, a shape that does not fit or a value that the policy's format
  // does not have.
  [[nodiscard]] virtual SavedCall saved_call(const std::vector<NamedArray>& inputs,
                                             const std::vector<NamedArray>& outputs, const Policy& policy,
                                             const SavedWords& words) const;
  // A problem that gives the inputs of such a call: the whole call, or, where rows are computed apart and there are too
  // many numbers, the row of `witness`, whose index follows. Numbers are set by hand; more than 4,096 of q, k and v lie
  // in a file that is written to `folder`. Throws Error(usage): one sentence that says why there is none.
  [[nodiscard]] virtual Problem saved_problem(const Exchange& saved, Evidence& witness,
                                              const std::filesystem::path& folder) const;
  // The words that saved_call() reads.
  [[nodiscard]] virtual const std::vector<SavedWord>& saved_words() const;
  // The calls that the same arrays are of if one of these words was forgotten or is wrong.
  [[nodiscard]] virtual std::vector<OtherCall> other_calls(const SavedWords&) const { return {}; }
  // The options of a call besides its tensors' shapes: "scale 0.5, causal".
  [[nodiscard]] virtual std::string options_in_words(const Exchange& exchange) const;
  [[nodiscard]] virtual PythonReference python(const Exchange& exchange, const Contract& contract) const;
  // The call in ONNX: spelt out in the ways that models do, and as one node where that says the same. Throws
  // Error(usage) for a call that no such graph says.
  [[nodiscard]] virtual std::vector<NamedGraph> graphs(const Exchange& exchange, const Contract& contract) const;
  // The parts of a graph that are this operation, in the order of evaluation.
  [[nodiscard]] virtual std::vector<std::unique_ptr<Subgraph>> subgraphs(const graph::Connections&) const { return {}; }
  // The parts of a graph that look like this operation and are not among these, likewise.
  [[nodiscard]] virtual std::vector<Unrecognised> unrecognised(const graph::Connections&) const { return {}; }
  // The sentences of a subject's documents that bear on a problem and on `promises`, keys of the contract.
  [[nodiscard]] virtual std::vector<Quote> quotes_on(std::span<const Quote> documents, const Problem& problem,
                                                     std::span<const std::string_view> promises) const;
  // Counts the draws of each region of each field, over problems 0..count-1 of `seed` (generators/coverage.hpp).
  [[nodiscard]] virtual Coverage coverage(const Domain& domain, std::uint64_t seed, std::uint64_t count) const;
  // Why a problem is none whose output can be bounded, "give rows a size of 1 or more"; nullopt if it is.
  [[nodiscard]] virtual std::optional<std::string> without_elements(const Problem& problem) const;

  // ---- shrinking
  [[nodiscard]] virtual const std::vector<Dimension>& dimensions() const = 0;
  // The extents of an evidence's index.
  [[nodiscard]] virtual std::array<Index, 4> witness_extents(const Problem& problem) const = 0;
  // Every dimension at most `most`, or the least above it that the subject takes. Around the witness where given,
  // keeping its coordinates.
  [[nodiscard]] virtual Problem capped(Problem problem, Index most, const std::optional<Witness>& witness,
                                       const Supports& supports) const = 0;
  // One element of one row, of `samples` samples, or as few as the subject takes, keeping the witness's coordinates.
  [[nodiscard]] virtual Problem sliced(Problem problem, Index samples, const Witness& witness,
                                       const Supports& supports) const = 0;
  // Numbers of full significands, whatever they were.
  [[nodiscard]] virtual Problem with_plain_numbers(Problem problem) const = 0;
  // Brings what depends on changed fields into line, within what the subject takes.
  virtual void fit(const Problem& from, Problem& to, const Supports& supports) const = 0;
  // Neighbours that no single field gives, in steps of their own.
  using Neighbours = std::vector<Candidate> (*)(const Problem& problem);
  [[nodiscard]] virtual std::span<const Neighbours> further_neighbours() const = 0;
  // The least problem of the smallest shape that is not degenerate; nullopt where that is the same.
  [[nodiscard]] virtual std::optional<Problem> least_telling(Problem) const { return std::nullopt; }
  // Problems of a shape that may show what larger ones did.
  [[nodiscard]] virtual std::vector<Escape> escapes(const Problem& shape, const Problem& original) const = 0;
  // A problem with many more samples and columns, within reason.
  [[nodiscard]] virtual Problem sampled(Problem problem) const = 0;

  // ---- probing
  // nullptr: there are none yet.
  [[nodiscard]] virtual const Probes* probes() const noexcept { return nullptr; }

  // ---- grading
  // nullptr: its faults, if it has any, cannot be graded.
  [[nodiscard]] virtual const Grading* grading() const noexcept { return nullptr; }

  // ---- telling
  // The lines that a campaign prints before it begins: they say how this subject is judged. May be empty.
  [[nodiscard]] virtual std::string preface(const SubjectInfo&) const { return {}; }
  // The same for a subject that declares no policy: how much its contracts can find at all.
  [[nodiscard]] virtual std::string undeclared_reach(const SubjectInfo&) const { return {}; }
  // Formats besides the policy, "+bias-f32"; the shape in a few letters.
  [[nodiscard]] virtual std::string further_formats(const Problem&) const { return {}; }
  [[nodiscard]] virtual std::string shape_class(const Problem& problem) const = 0;
  // The traits in the order in which predicates of equal merit prefer them; those of forms apart.
  [[nodiscard]] virtual std::vector<Trait> traits() const = 0;

  // ---- explaining
  // A call of this operation and what it gave, copied. nullptr where it is not told: the memory of a tensor is not in
  // one part, or the operation has no such reading.
  [[nodiscard]] virtual std::unique_ptr<Reading> reading(const Call&) const { return nullptr; }
  // The stage that a law holds apart from others, where it failed so and no fault, promise or reading accounts for it;
  // empty where it speaks of several.
  [[nodiscard]] virtual std::string_view isolated_stage(std::string_view /*law*/, const Problem&, const Contract&,
                                                        const Verdict&) const {
    return {};
  }
};

// The part of a policy of several operations that speaks of one (core/policy_stages.hpp). `elsewhere` receives, a
// sentence each, the parts that speak of others alone. Throws what Op::policy_from_text() throws.
Policy policy_asked(const Op& op, std::string_view text, std::vector<std::string>* elsewhere = nullptr);

// nullptr if there is none of that name.
const Op* find_op(std::string_view name) noexcept;
// The first that the subject offers. Throws Error(usage) where it offers none.
const Op& first_op(const SubjectInfo& info);

// The laws of all operations, one operation after the other.
std::span<const Law> all_laws();
// The position of an operation's law by name. Throws Error(usage) if there is none.
std::size_t law_named(std::string_view name, const Op& op = *all_ops().front());
// The first of any operation; laws of one name are of one kind. nullptr if there is none.
const Law* find_law(std::string_view name);
// An operation's law by name; nullptr if there is none.
const Law* find_law(std::string_view name, const Op& op);

// ---- what the field table says of any operation ---------------------------------------------------------------------

// Groups of fields that are reset together, in this order; with the values go edits and origins.
inline constexpr std::array reset_groups{FieldGroup::masks,   FieldGroup::layouts, FieldGroup::outputs,
                                         FieldGroup::scaling, FieldGroup::forms,   FieldGroup::values};
Problem reset(Problem problem, FieldGroup group);

// A letter for the size of a dimension in shape_class(): 0, 1, small, medium, large; enough to tell decode from
// prefill.
char size_class(Index n) noexcept;

// Neighbours for further_neighbours().
std::vector<Candidate> origin_at_zero(const Problem& problem);
std::vector<Candidate> seed_at_zero(const Problem& problem);

}  // namespace attest::ops

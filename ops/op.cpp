#include "ops/op.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.hpp"
#include "core/policy_stages.hpp"
#include "generators/coverage.hpp"

namespace attest::ops {

const Field* Op::find_field(std::string_view name) const {
  const auto all = fields();
  const auto found = std::ranges::find(all, name, &Field::name);
  return found == all.end() ? nullptr : &*found;
}

const std::vector<FormChoice>& Op::forms(const Problem&) const {
  static const std::vector<FormChoice> none;
  return none;
}

std::optional<std::string> Law::not_applicable(const Problem& problem, const Contract& contract,
                                               const SubjectInfo& info) const {
  return op->not_applicable(*this, problem, contract, info);
}

// ---- of all operations ----------------------------------------------------------------------------------------------

const Op& op_owning(const std::type_info& type) {
  for (const Op* op : all_ops())
    if (op->owns(type)) return *op;
  throw internal_error("a value is of no operation that is listed");
}

const Op* find_op(std::string_view name) noexcept {
  const auto all = all_ops();
  const auto found = std::ranges::find(all, name, &Op::name);
  return found == all.end() ? nullptr : *found;
}

const Op& first_op(const SubjectInfo& info) {
  for (const Op* op : all_ops())
    if (op->offered(info)) return *op;
  throw usage_error(
      fmt::format("{} offers {} alone, which this version does not test", info.name, fmt::join(info.ops, ", ")));
}

std::span<const Law> all_laws() {
  static const std::vector<Law> laws = [] {
    std::vector<Law> all;
    for (const Op* op : all_ops()) std::ranges::copy(op->laws(), std::back_inserter(all));
    return all;
  }();
  return laws;
}

const Law* find_law(std::string_view name) {
  const auto all = all_laws();
  const auto found = std::ranges::find(all, name, &Law::name);
  return found == all.end() ? nullptr : &*found;
}

const Law* find_law(std::string_view name, const Op& op) {
  const auto all = all_laws();
  const auto found = std::ranges::find_if(all, [&](const Law& law) { return law.op == &op && law.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::size_t law_named(std::string_view name, const Op& op) {
  const Law* found = find_law(name, op);
  if (found == nullptr)
    throw usage_error("there is no property '" + std::string(name) + "': `attest list properties` names them");
  return static_cast<std::size_t>(found - all_laws().data());
}

// ---- one call apart from a trial ------------------------------------------------------------------------------------

namespace {

Error lacks(const Op& op, std::string_view what) {
  return usage_error(fmt::format("{} is not there for {} in this version", what, op.name()));
}

}  // namespace

std::pair<SubjectInfo, SubjectInfo> Op::narrowed_to_both(const SubjectInfo&, const SubjectInfo&,
                                                         const std::vector<Format>&,
                                                         const std::optional<Policy>&) const {
  throw lacks(*this, "a comparison of two subjects");
}
std::unique_ptr<Exchange> Op::exchange(const Problem&) const { throw lacks(*this, "a call apart from a campaign"); }
SavedCall Op::saved_call(const std::vector<NamedArray>&, const std::vector<NamedArray>&, const Policy&,
                         const SavedWords&) const {
  throw lacks(*this, "a judgement of saved tensors");
}
Problem Op::saved_problem(const Exchange&, Evidence&, const std::filesystem::path&) const {
  throw lacks(*this, "a reproducer of saved tensors");
}
const std::vector<SavedWord>& Op::saved_words() const {
  static const std::vector<SavedWord> none;
  return none;
}
std::string Op::options_in_words(const Exchange&) const { return {}; }
PythonReference Op::python(const Exchange&, const Contract&) const { throw lacks(*this, "an export to Python"); }
std::vector<NamedGraph> Op::graphs(const Exchange&, const Contract&) const {
  throw lacks(*this, "an export as a graph");
}
std::vector<Quote> Op::quotes_on(std::span<const Quote>, const Problem&, std::span<const std::string_view>) const {
  return {};
}
Coverage Op::coverage(const Domain&, std::uint64_t, std::uint64_t) const {
  throw lacks(*this, "a table of what is drawn");
}
std::optional<std::string> Op::without_elements(const Problem&) const { return std::nullopt; }

// ---------------------------------------------------------------------------------------------------------------------

Policy policy_asked(const Op& op, std::string_view text, std::vector<std::string>* elsewhere) {
  PolicyShare share = policy_share(op.name(), text);
  if (elsewhere != nullptr) *elsewhere = std::move(share.elsewhere);
  return op.policy_from_text(share.text);
}

Trait trait_of(const Field& field) {
  using Kind = Trait::Kind;
  const Kind kind = field.kind == FieldKind::label  ? Kind::label
                    : field.kind == FieldKind::flag ? Kind::flag
                                                    : Kind::number;
  return {std::string(field.name), kind, field.labels, static_cast<double>(field.simplest),
          [&field](const Looked& at) { return field.number(at.problem); }};
}

std::vector<const Field*> fields_by_merit(const Op& op) {
  std::vector<const Field*> rows;
  for (const Field& field : op.fields())
    if (field.trait != 0) rows.push_back(&field);
  std::ranges::sort(rows, {}, &Field::trait);
  return rows;
}

// ---- ops/problem.hpp ------------------------------------------------------------------------------------------------

namespace {

// "op=NAME" among the keys of a line; the first operation where there is none.
const Op& op_of_line(std::string_view line) {
  constexpr std::string_view key = "op=";
  for (std::size_t begin = 0; begin < line.size();) {
    const std::size_t end = std::min(line.find(' ', begin), line.size());
    const std::string_view word = line.substr(begin, end - begin);
    if (word.starts_with(key))
      if (const Op* op = find_op(word.substr(key.size()))) return *op;
    begin = end + 1;
  }
  return *all_ops().front();
}

const Op& op_of_json(const nlohmann::json& object) {
  if (object.is_object())
    if (const auto found = object.find("op"); found != object.end() && found->is_string())
      if (const Op* op = find_op(found->get_ref<const std::string&>())) return *op;
  return *all_ops().front();
}

}  // namespace

std::string to_text(const Problem& problem) { return problem.op().to_text(problem); }
Problem problem_from_text(std::string_view line) { return op_of_line(line).problem_from_text(line); }
nlohmann::ordered_json to_json(const Problem& problem) { return problem.op().to_json(problem); }
Problem problem_from_json(const nlohmann::json& object, const std::string& folder) {
  return op_of_json(object).problem_from_json(object, folder);
}
void validate(const Problem& problem) { problem.op().validate(problem); }
Format storage_of(const Problem& problem) { return problem.op().dtype(problem); }
std::uint64_t seed_of(const Problem& problem) { return problem.op().seed(problem); }
std::int64_t work_of(const Problem& problem) { return problem.op().work(problem); }
const std::vector<FormChoice>& forms_of(const Problem& problem) { return problem.op().forms(problem); }

std::string to_text(const Policy& policy) { return policy.op().to_text(policy); }
Format storage_of(const Policy& policy) { return policy.op().storage(policy); }
Format output_of(const Policy& policy) {
  const auto& stages = stages_of(policy.op().name());
  const auto output = std::ranges::find(stages, "output");
  if (output == stages.end()) throw internal_error(fmt::format("{} has no stage output", policy.op().name()));
  return policy.op().stage(policy, static_cast<std::size_t>(output - stages.begin()));
}
Policy policy_of(const Contract& contract) { return contract.op().policy(contract); }
nlohmann::ordered_json to_json(const Contract& contract) { return contract.op().to_json(contract); }

// ---- the field table ------------------------------------------------------------------------------------------------

Problem reset(Problem problem, FieldGroup group) {
  const Op& op = problem.op();
  for (const Field& field : op.fields()) {
    // Origins key the values.
    if (field.group != group && !(group == FieldGroup::values && field.group == FieldGroup::origin)) continue;
    field.copy(op.defaults(), problem);
    if (field.reset_to) field.set(problem, *field.reset_to);
  }
  if (group == FieldGroup::forms) op.clear_forms(problem);
  if (group == FieldGroup::values) op.clear_edits(problem);
  return problem;
}

std::vector<Candidate> origin_at_zero(const Problem& problem) {
  Problem changed = problem;
  for (const Field& field : problem.op().fields())
    if (field.group == FieldGroup::origin) field.set(changed, 0);
  return {{std::move(changed), "origin -> 0"}};
}

std::vector<Candidate> seed_at_zero(const Problem& problem) {
  Problem changed = problem;
  for (const Field& field : problem.op().fields())
    if (field.kind == FieldKind::seed) field.set(changed, 0);
  return {{std::move(changed), "seed -> 0"}};
}

char size_class(Index n) noexcept {
  if (n <= 1) return n == 0 ? '0' : '1';
  return n <= 16 ? 's' : n <= 256 ? 'm' : 'l';
}

}  // namespace attest::ops

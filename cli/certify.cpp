#include "certify/certificate.hpp"
#include "certify/layer_norm/certificate.hpp"
#include "certify/mha/certificate.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/outputs.hpp"
#include "cli/settings.hpp"
#include "cli/verbs.hpp"
#include "core/error.hpp"
#include "engine/check.hpp"
#include "engine/corpus.hpp"
#include "engine/evidence.hpp"
#include "properties/property.hpp"
#include "report/text.hpp"

namespace attest::cli {
namespace {

using certify::Answer;
using certify::Certificate;
using certify::Claim;
using nlohmann::ordered_json;
using LawClaim = properties::Claim;

// The claim of a reproducer's law about the numbers that its witness names.
LawClaim claim_of(const engine::Entry& entry) {
  const auto& witness = entry.evidence;
  if (entry.seen != VerdictKind::fail || !witness || witness->wrong == Wrong::memory) return LawClaim::none;
  const ops::Law* law = ops::find_law(entry.property, entry.problem.op());
  if (law == nullptr) return LawClaim::none;
  // The law stage-bound judges elements, of a call that asks for stages too.
  if (law->name == engine::stage_bound_name) return LawClaim::element;
  if (witness->tensor != "out" && witness->tensor != "lse" && witness->tensor != "sum_out") return LawClaim::none;
  return law->claim;
}

// Tells whether the law's bound of this number follows from what the subject gave of the stages before. A certificate
// has the inputs alone: that bound excludes all that a certificate excludes, and not the other way round.
bool follows_from_given(const engine::Entry& entry) {
  return entry.property == engine::stage_bound_name && entry.evidence &&
         (entry.evidence->tensor == "heads" || entry.evidence->tensor == "out");
}

std::string why_not_covered(const engine::Entry& entry) {
  if (entry.subject_b)
    return "the entry is of two subjects, each with a contract of its own: `attest check SUBJECT --problem TEXT "
           "--corpus DIR` "
           "on the one that is outside its bound stores an entry that can be certified";
  if (entry.seen != VerdictKind::fail)
    return fmt::format(
        "the finding is of kind '{}' and names no wrong number: there is nothing that an interval could prove",
        name(entry.seen));
  const ops::Law* law = ops::find_law(entry.property, entry.problem.op());
  if (!entry.evidence || entry.evidence->wrong == Wrong::memory || (law && law->kind == properties::Kind::guard))
    return "the finding is about memory, and no claim about a number: replay shows it";
  if (law && law->kind == properties::Kind::exact)
    return "this law is exact: two results that must be equal differ, and there is nothing to certify beyond the "
           "replay";
  if (law && law->base_call())
    return "the law holds the elements of a result together, and a certificate speaks of one by itself: replay shows it";
  return "the law's numbers belong to problems that it derives from this one, which a certificate does not do: replay "
         "shows it";
}

// The part of a certificate for one of several ways that a contract permits for a call.
struct CallWay {
  std::string name;
  Answer answer;
  std::string exact, lo, hi;
  double rounded_lo, rounded_hi;
};
struct Made {
  Certificate certificate;
  std::vector<CallWay> ways{};
};

// The certificate of the number that decides, and which that is.
struct Result {
  Certificate certificate;
  std::vector<CallWay> ways;
  double value;
};

// ---- one function for each operation --------------------------------------------------------------------------------

Made certify_value(const Contract& contract, const Problem& problem, const Evidence& witness, LawClaim law,
                   double value) {
  Claim claim;
  claim.tensor = witness.tensor == "lse" ? Claim::Tensor::lse : Claim::Tensor::out;
  claim.index = witness.index;
  claim.hull = law == LawClaim::hull;
  claim.value = value;
  return {certify::certify(contract, problem, claim)};
}

Made certify_value(const layer_norm::Contract& contract, const layer_norm::Problem& problem, const Evidence& witness,
                   LawClaim, double value) {
  using OfNorm = certify::layer_norm::Claim;
  const bool sum = witness.tensor == "sum_out";
  certify::layer_norm::Certificate made = certify::layer_norm::certify(
      contract, problem,
      {sum ? OfNorm::Tensor::sum_out : OfNorm::Tensor::out, witness.index[0], witness.index[1], value});
  Certificate certificate;
  certificate.answer = made.answer;
  certificate.why = std::move(made.why);
  certificate.exact = std::move(made.exact);
  certificate.lo = std::move(made.lo);
  certificate.hi = std::move(made.hi);
  certificate.rounded_lo = made.rounded_lo;
  certificate.rounded_hi = made.rounded_hi;
  certificate.stage = contract.policy[sum ? layer_norm::Stage::sum : layer_norm::Stage::output];
  certificate.tensor = problem.dtype;
  certificate.bits = made.bits;
  certificate.arithmetic = std::move(made.arithmetic);
  certificate.row = std::move(made.figures);
  return {std::move(certificate)};
}

std::string way_name(const certify::mha::Going& going) {
  constexpr std::array<std::string_view, mha::projected_count> projected{"unrounded", "rounded", "separate"};
  return fmt::format("projections {}, heads {}", projected[static_cast<std::size_t>(going.projected)],
                     going.heads_rounded ? "rounded" : "unrounded");
}

Made certify_value(const mha::Contract& contract, const mha::Problem& problem, const Evidence& witness, LawClaim,
                   double value) {
  using OfBlock = certify::mha::Claim::Tensor;
  const OfBlock tensor = witness.tensor == "q"       ? OfBlock::q
                         : witness.tensor == "k"     ? OfBlock::k
                         : witness.tensor == "v"     ? OfBlock::v
                         : witness.tensor == "heads" ? OfBlock::heads
                                                     : OfBlock::out;
  certify::mha::Certificate of_block = certify::mha::certify(contract, problem, {witness.index, value, tensor});
  Made made;
  for (certify::mha::Certificate::Way& way : of_block.ways)
    made.ways.push_back({way_name(way.going), way.answer, std::move(way.exact), std::move(way.lo), std::move(way.hi),
                         way.rounded_lo, way.rounded_hi});
  // The interval that stands for all: that of the way which decides.
  auto decides = std::ranges::find(made.ways, of_block.answer, &CallWay::answer);
  if (decides == made.ways.end()) decides = made.ways.begin();
  Certificate& certificate = made.certificate;
  certificate.answer = of_block.answer;
  certificate.why = std::move(of_block.why);
  certificate.exact = decides->exact;
  certificate.lo = decides->lo;
  certificate.hi = decides->hi;
  certificate.rounded_lo = decides->rounded_lo;
  certificate.rounded_hi = decides->rounded_hi;
  certificate.stage = contract.attention.policy[tensor == OfBlock::out ? Stage::output : Stage::storage];
  certificate.tensor = problem.dtype;
  certificate.bits = of_block.bits;
  certificate.arithmetic = std::move(of_block.arithmetic);
  return made;
}

Made certify_value(const engine::Entry& entry, LawClaim law, double value) {
  const auto of = [&]<class OwnProblem, class OwnContract>() {
    return certify_value(entry.contract.as<OwnContract>(), entry.problem.as<OwnProblem>(), *entry.evidence, law, value);
  };
  if (entry.problem.is<Problem>()) return of.operator()<Problem, Contract>();
  if (entry.problem.is<layer_norm::Problem>()) return of.operator()<layer_norm::Problem, layer_norm::Contract>();
  if (entry.problem.is<mha::Problem>()) return of.operator()<mha::Problem, mha::Contract>();
  throw usage_error(fmt::format("it is of {}, whose numbers this version does not certify: replay shows it",
                                entry.problem.op().name()));
}

Result certify_entry(const engine::Entry& entry, LawClaim law, const std::string& path) {
  const auto judge = [&](double value) {
    Made made = certify_value(entry, law, value);
    return Result{std::move(made.certificate), std::move(made.ways), value};
  };
  try {
    Result got = judge(entry.evidence->got);
    if (law != LawClaim::pair || got.certificate.answer == Answer::stands) return got;
    Result other = judge(entry.evidence->expected);
    // Both may be right only if neither answer is open.
    const bool take_other = other.certificate.answer == Answer::stands ||
                            (other.certificate.answer == Answer::undecided && got.certificate.answer == Answer::falls);
    return take_other ? other : got;
  } catch (const Error& error) {
    throw Error(error.exit(), fmt::format("{}: {}", path, error.what()));
  }
}

std::string sentence(const engine::Entry& entry, LawClaim law, const Result& result) {
  const std::string element = report::element_name(*entry.evidence), value = report::number(result.value);
  std::string text;
  switch (result.certificate.answer) {
    case Answer::stands:
      text = law == LawClaim::hull
                 ? fmt::format("no weighting of the values that the row attends to can give {} = {}", element, value)
                 : fmt::format("no implementation that keeps this contract can give {} = {}", element, value);
      break;
    case Answer::falls:
      text = fmt::format("the bound does not exclude {} = {}", element, value);
      break;
    case Answer::undecided:
      text = fmt::format("{} = {} is too near to an end of the interval", element, value);
      break;
  }
  if (law == LawClaim::pair)
    text += fmt::format(", one of the two results {} and {} of this element", report::number(entry.evidence->got),
                        report::number(entry.evidence->expected));
  return text + ": " + result.certificate.why;
}

std::string_view outcome_text(Answer answer) {
  constexpr std::array<std::string_view, 3> texts{"stands", "does not stand", "undecided"};
  return texts[static_cast<std::size_t>(answer)];
}

void print(const engine::Entry& entry, LawClaim law, const Result& result) {
  const Certificate& made = result.certificate;
  std::cout << fmt::format("{:<15} {}\n", outcome_text(made.answer), sentence(entry, law, result));
  if (!made.lo.empty()) {
    std::cout << fmt::format("  interval      {} .. {}\n", made.lo, made.hi);
    std::cout << fmt::format("  rounded       {} .. {} in {}\n", report::number(made.rounded_lo),
                             report::number(made.rounded_hi), name(made.tensor));
    if (law != LawClaim::hull) std::cout << fmt::format("  exact value   {}\n", made.exact);
  }
  if (result.ways.size() > 1)
    for (const CallWay& way : result.ways)
      std::cout << fmt::format(
          "  way           {}: {}\n", way.name,
          way.lo.empty() ? std::string("no number is asked for") : fmt::format("{} .. {}", way.lo, way.hi));
  const std::string hex = std::isfinite(result.value) ? " = " + hex_float(result.value) : "";
  std::cout << fmt::format("  value         {}{}, as the file states it\n", report::number(result.value), hex);
  std::cout << fmt::format("  policy        {}\n", to_text(policy_of(entry.contract)));
  std::cout << fmt::format("  decided       in {} bits, {}\n", made.bits, made.arithmetic);
}

ordered_json figures(const std::vector<certify::Figure>& list) {
  ordered_json object = ordered_json::object();
  for (const certify::Figure& figure : list) object[figure.name] = figure.text;
  return object;
}

ordered_json proof_json(const Result& result) {
  const Certificate& made = result.certificate;
  ordered_json object;
  object["value"] = engine::real_to_json(result.value);
  object["value_hex"] = hex_float(result.value);
  if (!made.lo.empty()) {
    object["exact"] = made.exact;
    object["lo"] = made.lo;
    object["hi"] = made.hi;
    object["rounded_lo"] = engine::real_to_json(made.rounded_lo);
    object["rounded_hi"] = engine::real_to_json(made.rounded_hi);
  }
  object["rounded_to"] = {name(made.stage), name(made.tensor)};
  object["bits"] = made.bits;
  object["library"] = made.arithmetic;
  object["constants"] = figures(made.constants);
  object["row"] = figures(made.row);
  object["keys"] = ordered_json::array();
  for (const auto& key : made.keys)
    object["keys"].push_back({{"key", key.key}, {"z", key.z}, {"e", key.e}, {"d", key.d}});
  object["ways"] = ordered_json::array();
  for (const auto& way : made.ways)
    object["ways"].push_back(
        {{"name", way.name}, {"t", way.t}, {"x", way.x}, {"g", way.g}, {"t_top", way.t_top}, {"top", way.top}});
  for (const CallWay& way : result.ways) {
    ordered_json one{{"name", way.name}, {"outcome", name(way.answer)}};
    if (!way.lo.empty()) {
      one["exact"] = way.exact;
      one["lo"] = way.lo;
      one["hi"] = way.hi;
      one["rounded_lo"] = engine::real_to_json(way.rounded_lo);
      one["rounded_hi"] = engine::real_to_json(way.rounded_hi);
    }
    object["ways"].push_back(std::move(one));
  }
  return object;
}

ordered_json head_json(const engine::Entry& entry, const std::string& path) {
  ordered_json object;
  object["format"] = 1;
  object["verb"] = "certify";
  object["file"] = path;
  object["subject"] = entry.subject;
  object["property"] = entry.property;
  object["problem"] = to_text(engine::portable_problem(entry.problem));
  object["contract"] = to_json(entry.contract);
  return object;
}

int certify_file(const Settings& settings, const std::string& path) {
  std::unique_ptr<OutputFile> json;
  if (const auto file = settings.text("json")) json = std::make_unique<OutputFile>(*file, "--json");
  const bool quiet = json && json->is_stdout();
  const engine::Entry entry = engine::read_entry(path);
  const LawClaim law = claim_of(entry);
  ordered_json object = head_json(entry, path);
  Exit exit = Exit::cannot_test;
  if (law == LawClaim::none) {
    const std::string why = why_not_covered(entry);
    if (!quiet) std::cout << fmt::format("{:<15} {}: {}\n", "not covered", entry.property, why);
    object["outcome"] = "not_covered";
    object["why"] = why;
  } else {
    const Result result = certify_entry(entry, law, path);
    const Answer answer = result.certificate.answer;
    if (answer == Answer::falls && follows_from_given(entry)) {
      const std::string why = fmt::format(
          "the inputs alone do not exclude {} = {}; what this stage may be follows from those before as the subject "
          "gave them in a further call: replay shows it",
          report::element_name(*entry.evidence), report::number(result.value));
      if (!quiet) std::cout << fmt::format("{:<15} {}: {}\n", "not covered", entry.property, why);
      object["outcome"] = "not_covered";
      object["why"] = why;
      object["exit"] = static_cast<int>(exit);
      if (json) write_json(*json, object);
      return static_cast<int>(exit);
    }
    if (answer != Answer::undecided) exit = answer == Answer::stands ? Exit::held : Exit::found;
    if (!quiet) print(entry, law, result);
    constexpr std::array<std::string_view, 4> claims{"", "element", "hull", "pair"};
    object["outcome"] = name(answer);
    object["why"] = sentence(entry, law, result);
    object["claim"] = claims[static_cast<std::size_t>(law)];
    object["tensor"] = entry.evidence->tensor;
    object["index"] = entry.evidence->index;
    object.update(proof_json(result));
  }
  object["exit"] = static_cast<int>(exit);
  if (json) write_json(*json, object);
  return static_cast<int>(exit);
}

}  // namespace

void add_certify(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand("certify", "prove a corpus file's finding once more, in ball arithmetic");
  auto file = std::make_shared<std::string>();
  auto settings = std::make_shared<Settings>();
  verb->add_option("FILE", *file, "a corpus file")->type_name("")->required();
  settings->declare(*verb, {{"json", "FILE", "the proof with its constants as one JSON object; - is stdout"}});
  verb->callback([=, &run] {
    run = [=] {
      settings->complete("certify");
      return certify_file(*settings, *file);
    };
  });
}

}  // namespace attest::cli

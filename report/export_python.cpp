#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <string>

#include "ops/numpy_text.hpp"
#include "properties/property.hpp"
#include "report/export.hpp"
#include "report/text.hpp"

namespace attest::report {
namespace {

std::string literal(double value, DType type) {
  if (type == DType::boolean) return value != 0 ? "True" : "False";
  return python_number(value);
}

// A format that NumPy lacks is exact in float32.
std::string numpy_type(DType type) {
  if (!is_floating(type)) return type == DType::i32 ? "np.int32" : "np.bool_";
  const Format format = format_of(type);
  return ops::numpy_name(traits(format).in_numpy() ? format : Format::f32);
}

// Nested lists along the axes that vary; stride-0 axes are written once and broadcast.
std::string nested(const Tensor& tensor, std::array<Index, 4> index, std::size_t axis) {
  const auto shape = tensor.shape();
  if (axis == shape.size()) return literal(tensor.at(index[0], index[1], index[2], index[3]), tensor.dtype());
  const Index extent = tensor.strides()[axis] == 0 ? std::min<Index>(shape[axis], 1) : shape[axis];
  std::string text = "[";
  for (index[axis] = 0; index[axis] < extent; ++index[axis])
    text += (index[axis] ? ", " : "") + nested(tensor, index, axis + 1);
  return text + "]";
}

std::string array(std::string_view name, const Tensor& tensor) {
  if (tensor.size() == 0)  // lists without elements do not tell the extents behind
    return fmt::format("{} = np.zeros(({},), {})\n", name, fmt::join(tensor.shape(), ", "), numpy_type(tensor.dtype()));
  std::string code = fmt::format("{} = np.array({}, {})", name, nested(tensor, {}, 0), numpy_type(tensor.dtype()));
  const bool broadcast = std::any_of(tensor.strides().begin(), tensor.strides().end(), [](Index s) { return s == 0; });
  if (broadcast) {
    std::string shape;
    for (const Index n : tensor.shape()) shape += fmt::format("{}, ", n);
    code = fmt::format("{} = np.broadcast_to({}, ({}))", name, code.substr(name.size() + 3), shape);
  }
  if (const DType type = tensor.dtype(); is_floating(type) && !traits(format_of(type)).in_numpy())
    code += fmt::format("  # {} values, exact in float32", traits(format_of(type)).library);
  return code + "\n";
}

std::string tensors(const ops::Exchange& call) {
  std::string code;
  for (const auto& [name, tensor] : call.inputs()) code += array(name, *tensor);
  for (const auto& [name, value] : call.numbers()) code += fmt::format("{} = {}\n", name, number(value));
  return code;
}

// The element that shows the failure: "[at]", or "" for the whole output.
std::string place(const engine::Entry& entry) {
  return entry.evidence && entry.evidence->tensor == "out" ? "[at]" : "";
}

std::string print_range(const engine::Entry& entry) {
  const Evidence& seen = *entry.evidence;
  if (seen.lo == seen.hi) return {};
  return fmt::format("print('a kernel that keeps the policy {} returns something in [{}, {}]')\n",
                     ascii_line(to_text(policy_of(entry.contract))), number(seen.lo), number(seen.hi));
}

// The indices of the witness, as many as its tensor has axes.
std::string witness_index(const Exported& exported) {
  const Evidence& seen = *exported.entry.evidence;
  std::size_t axes = seen.index.size();
  for (const ops::NamedTensor& output : exported.call.outputs())
    if (output.name == seen.tensor) axes = output.tensor->shape().size();
  return fmt::format("{}", fmt::join(std::span(seen.index).first(axes), ", "));
}

std::string print_expected(const Exported& exported) {
  const std::string at = place(exported.entry);
  if (at.empty()) return "print('expected\\n', expected)\n";
  return fmt::format("at = ({})\nprint('expected', expected[at])\n", witness_index(exported)) +
         print_range(exported.entry);
}

// Another output than the first is none of the script's subject, but for stages: the result that attest saw stands for
// it.
std::string print_further(const Exported& exported, const ops::PythonReference& reference) {
  const auto& seen = exported.entry.evidence;
  const std::string code = seen && reference.further ? reference.further(seen->tensor) : std::string();
  if (code.empty()) return {};
  const bool stages_of_subject = !exported.subject_code.empty() && !reference.given.empty();
  return "\n" + code + fmt::format("print('expected {0}', {0}[{1}])\n", seen->tensor, witness_index(exported)) +
         print_range(exported.entry) +
         (stages_of_subject
              ? fmt::format("print('got {0:<9}', given['{0}'][{1}])\n", seen->tensor, witness_index(exported))
              : fmt::format("print('got {:<9}{}')\n", seen->tensor, number(seen->got)));
}

std::string print_got(const engine::Entry& entry) {
  const std::string at = place(entry);
  return at.empty() ? "print('got\\n', got)\n" : "print('got     ', got[at])\n";
}

// Code for the calls that must be asked before, on the same instance, or the reason why this script has none.
std::string earlier_calls(const Exported& exported) {
  const auto& after = exported.entry.after;
  if (after.empty()) return {};
  std::string code = fmt::format("\n# It fails in a process that ran {} before, in this order.\n",
                                 after.size() == 1 ? "this call" : fmt::format("these {} calls", after.size()));
  if (exported.earlier.empty()) {
    for (const engine::EarlierCall& call : after) code += fmt::format("#   {}\n", ascii_line(to_text(call.problem)));
    return code + "# This script cannot make them, since nothing in Python calls the subject: `attest replay` does.\n";
  }
  for (const Exported::Earlier& earlier : exported.earlier) {
    code += fmt::format("# {}\n", ascii_line(to_text(earlier.call.problem)));
    if (!earlier.call.laws.empty())
      code += fmt::format("# the further calls that {} made of it are left out: `attest replay` makes them\n",
                          ascii_line(fmt::format("{}", fmt::join(earlier.call.laws, ", "))));
    code += tensors(*earlier.exchange) + earlier.code;
  }
  return code + "# and now the call itself\n";
}

}  // namespace

std::string python_script(const Exported& exported) {
  const engine::Entry& entry = exported.entry;
  std::string code = fmt::format("# {} fails {}", ascii_line(entry.subject), ascii_line(entry.property));
  if (!entry.subject_version.empty()) code += fmt::format(", version {}", ascii_line(entry.subject_version));
  code += "\n";
  if (const auto* law = ops::find_law(entry.property, entry.problem.op()))
    code += fmt::format("# law: {}\n", law->statement);
  constexpr std::string_view on_the_problem_itself[] = {
      "guards", "result-class", "policy-bound", "hull", "fused-equals-explicit", "stage-bound", "shared-mean"};
  if (std::ranges::find(on_the_problem_itself, entry.property) == std::end(on_the_problem_itself))
    code += "# this law judges further calls that it derives from the problem; what follows is the problem itself\n";
  if (entry.evidence) code += fmt::format("# seen: {}\n", ascii_line(evidence_line(*entry.evidence)));
  if (entry.seen == VerdictKind::poisoned)
    code += fmt::format(
        "# this call is not what fails, and the script makes it alone: it poisons the instance, so that {}\n",
        ascii_line(entry.reason));
  if (entry.shown)
    code += fmt::format("# it failed in {} of {} runs: one run of this script may not show it\n", entry.shown->seen,
                        entry.shown->runs);
  code += fmt::format("# problem: {}\n", ascii_line(to_text(entry.problem)));
  code += "import numpy as np\n";
  const bool recorded = exported.subject_code.empty() && exported.answered;
  const ops::PythonReference reference = entry.problem.op().python(exported.call, entry.contract);
  std::string data = tensors(exported.call) + (recorded ? array("got", *exported.call.outputs().front().tensor) : "");
  for (const auto& [name, tensor] : reference.given) data += array(fmt::format("given_{}", name), *tensor);
  const std::string made = earlier_calls(exported) + "\n" + data;
  if (made.find("nan") != std::string::npos || made.find("inf") != std::string::npos)
    code += "from numpy import inf, nan\n";
  code += made + reference.code + "\n" + print_expected(exported);
  if (!exported.subject_code.empty()) code += "\n" + exported.subject_code;  // may end the script with a refusal
  return code + (exported.subject_code.empty() && !recorded ? "" : print_got(entry)) +
         print_further(exported, reference);
}

}  // namespace attest::report

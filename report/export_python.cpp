#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "core/policy.hpp"
#include "core/problem.hpp"
#include "properties/property.hpp"
#include "report/export.hpp"
#include "report/text.hpp"

namespace attest::report {
namespace {

// Inside a Python comment: one line, printable, whatever a corpus file says.
std::string comment(std::string_view text) {
  std::string safe;
  for (const char c : text) safe += (c >= ' ' && c != 0x7f) ? c : ' ';
  return safe;
}

std::string literal(double value, DType type) {
  if (type == DType::boolean) return value != 0 ? "True" : "False";
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  if (value == 0 && std::signbit(value)) return "-0.0";  // "-0" would be an integer, which has no such sign
  return fmt::format("{}", value);
}

std::string_view numpy_type(DType type) {
  switch (type) {
    case DType::f16:
      return "np.float16";
    case DType::f64:
      return "np.float64";
    case DType::i32:
      return "np.int32";
    case DType::boolean:
      return "np.bool_";
    default:
      return "np.float32";  // bf16 values are exact in float32
  }
}

bool finite(const Tensor& tensor) {
  const auto n = tensor.shape();
  for (Index a = 0; a < n[0]; ++a)
    for (Index b = 0; b < n[1]; ++b)
      for (Index c = 0; c < n[2]; ++c)
        for (Index d = 0; d < n[3]; ++d)
          if (!std::isfinite(tensor.at(a, b, c, d))) return false;
  return true;
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
  std::string code = fmt::format("{} = np.array({}, {})", name, nested(tensor, {}, 0), numpy_type(tensor.dtype()));
  const bool broadcast = std::any_of(tensor.strides().begin(), tensor.strides().end(), [](Index s) { return s == 0; });
  if (broadcast) {
    std::string shape;
    for (const Index n : tensor.shape()) shape += fmt::format("{}, ", n);
    code = fmt::format("{} = np.broadcast_to({}, ({}))", name, code.substr(name.size() + 3), shape);
  }
  if (tensor.dtype() == DType::bf16) code += "  # bfloat16 values, exact in float32";
  return code + "\n";
}

std::string tensors(const Inputs& inputs) {
  std::string code;
  for (const auto& [name, tensor] : inputs.named()) code += array(name, tensor);
  return code + fmt::format("scale = {}\n", number(inputs.scale));
}

// Explicit attention in float64, only the lines this problem needs.
std::string reference(const Problem& p, const Contract& contract, const Inputs& inputs) {
  std::string code =
      "\n# what attention means, in float64\n"
      "group = q.shape[1] // k.shape[1]\n"
      "K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))\n"
      "s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))\n";
  const std::string cap = p.softcap > 0 ? fmt::format("s = {0} * np.tanh(s / {0})\n", number(p.softcap)) : "";
  const std::string add = inputs.bias.present() ? "s = s + bias.astype(np.float64)\n" : "";
  code += contract.softcap_before_bias ? cap + add : add + cap;
  const bool lengths = inputs.kv_lengths.present();
  const bool diagonal = p.causal || p.window_left >= 0 || p.window_right >= 0;
  if (diagonal || lengths) code += "i, j = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None, :]\n";
  const std::string keys = lengths ? "kv_lengths[:, None, None, None]" : "k.shape[2]";
  if (diagonal)
    code += p.align == Align::bottom_right ? fmt::format("g = i + {} - q.shape[2]\n", keys) : std::string("g = i\n");
  const auto mask = [&](const std::string& open) { code += fmt::format("s = np.where({}, s, -np.inf)\n", open); };
  if (lengths) mask("j < " + keys);
  if (inputs.keep.present()) mask("keep");
  if (p.causal) mask("j <= g");
  if (p.window_left >= 0) mask(fmt::format("g - j <= {}", p.window_left));
  if (p.window_right >= 0) mask(fmt::format("j - g <= {}", p.window_right));
  code +=
      "with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean\n"
      "    w = np.exp(s - s.max(-1, keepdims=True))\n"
      "    w = w / w.sum(-1, keepdims=True)\n";
  code += finite(inputs.v) ? "    expected = w @ V\n"
                           : "    expected = np.where(s[..., None] == -np.inf, 0, w[..., None] * V[:, :, None]).sum(-2)"
                             "  # a masked NaN does not count\n";
  const auto empty_rows = [&](std::string_view value, std::string_view why) {
    code += fmt::format(
        "expected = np.where((s == -np.inf).all(-1, keepdims=True), {}, expected)  # its contract: {}\n", value, why);
  };
  if (contract.empty_row == EmptyRow::zero) empty_rows("0.0", "zeros");
  if (contract.empty_row == EmptyRow::nan) empty_rows("np.nan", "NaN");
  if (contract.empty_row == EmptyRow::mean_v) {
    const std::string real = fmt::format("np.broadcast_to({}, s.shape)", lengths ? "j < " + keys : "True");
    code += fmt::format("real = {}\n", real);
    empty_rows("real / np.maximum(real.sum(-1, keepdims=True), 1) @ V", "the mean of the values");
  }
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
                     comment(to_text(policy_of(entry.contract))), number(seen.lo), number(seen.hi));
}

std::string print_expected(const engine::Entry& entry) {
  const std::string at = place(entry);
  if (at.empty()) return "print('expected\\n', expected)\n";
  return fmt::format("at = ({})\nprint('expected', expected[at])\n", fmt::join(entry.evidence->index, ", ")) +
         print_range(entry);
}

// A log-sum-exp is no output of the script's subject: what attest saw stands for it.
std::string print_lse(const engine::Entry& entry) {
  if (!entry.evidence || entry.evidence->tensor != "lse") return {};
  const auto& i = entry.evidence->index;
  return "\nwith np.errstate(invalid='ignore'):\n"
         "    top = s.max(-1)\n"
         "    lse = np.where(top == -np.inf, top, top + np.log(np.exp(s - top[..., None]).sum(-1)))\n" +
         fmt::format("print('expected lse', lse[{}, {}, {}])\n", i[0], i[1], i[2]) + print_range(entry) +
         fmt::format("print('got lse      {}')\n", number(entry.evidence->got));
}

std::string print_got(const engine::Entry& entry) {
  const std::string at = place(entry);
  return at.empty() ? "print('got\\n', got)\n" : "print('got     ', got[at])\n";
}

// What must be asked before, on the same instance, or why this script cannot.
std::string earlier_calls(const Exported& exported) {
  const auto& after = exported.entry.after;
  if (after.empty()) return {};
  std::string code = fmt::format("\n# It fails on an instance that was asked {} before, in this order.\n",
                                 after.size() == 1 ? "this call" : fmt::format("these {} calls", after.size()));
  if (exported.earlier.empty()) {
    for (const engine::EarlierCall& call : after) code += fmt::format("#   {}\n", comment(to_text(call.problem)));
    return code + "# This script cannot make them, since nothing in Python calls the subject: `attest replay` does.\n";
  }
  for (const Exported::Earlier& earlier : exported.earlier) {
    code += fmt::format("# {}\n", comment(to_text(earlier.call.problem)));
    if (!earlier.call.laws.empty())
      code += fmt::format("# the further calls that {} made of it are left out: `attest replay` makes them\n",
                          comment(fmt::format("{}", fmt::join(earlier.call.laws, ", "))));
    code += tensors(earlier.inputs) + earlier.code;
  }
  return code + "# and now the call itself\n";
}

}  // namespace

std::string python_script(const Exported& exported) {
  const engine::Entry& entry = exported.entry;
  std::string code = fmt::format("# {} fails {}", comment(entry.subject), comment(entry.property));
  if (!entry.subject_version.empty()) code += fmt::format(", version {}", comment(entry.subject_version));
  code += "\n";
  if (const auto* law = ops::find_law(entry.property)) code += fmt::format("# law: {}\n", law->statement);
  constexpr std::string_view on_the_problem_itself[] = {"guards", "result-class", "policy-bound", "hull",
                                                        "fused-equals-explicit"};
  if (std::ranges::find(on_the_problem_itself, entry.property) == std::end(on_the_problem_itself))
    code += "# this law judges further calls that it derives from the problem; what follows is the problem itself\n";
  if (entry.evidence) code += fmt::format("# seen: {}\n", comment(evidence_line(*entry.evidence)));
  if (entry.seen == VerdictKind::poisoned)
    code += fmt::format(
        "# this call is not what fails, and the script makes it alone: it poisons the instance, so that {}\n",
        comment(entry.reason));
  if (entry.shown)
    code += fmt::format("# it failed in {} of {} runs: one run of this script may not show it\n", entry.shown->seen,
                        entry.shown->runs);
  code += fmt::format("# problem: {}\n", comment(to_text(entry.problem)));
  code += "import numpy as np\n";
  const std::string data =
      tensors(exported.inputs) + (exported.subject_code.empty() && exported.out ? array("got", *exported.out) : "");
  const std::string made = earlier_calls(exported) + "\n" + data;
  if (made.find("nan") != std::string::npos || made.find("inf") != std::string::npos)
    code += "from numpy import inf, nan\n";
  code += made + reference(entry.problem.as<Problem>(), entry.contract.as<Contract>(), exported.inputs) + "\n" +
          print_expected(entry);
  if (!exported.subject_code.empty()) code += "\n" + exported.subject_code;  // may end the script with a refusal
  return code + (exported.subject_code.empty() && !exported.out ? "" : print_got(entry)) + print_lse(entry);
}

}  // namespace attest::report

// Attention in NumPy, for exports.
#include <fmt/format.h>

#include <cmath>
#include <string>

#include "ops/attention/numpy.hpp"
#include "ops/attention/parts.hpp"

namespace attest::ops::of_attention {
namespace {

// Shortest decimal that reads back.
std::string in_python(double value) { return std::isnan(value) ? "nan" : fmt::format("{}", value); }

bool finite(const Tensor& tensor) {
  bool all = true;
  for_each_index(tensor.shape(),
                 [&](Index a, Index b, Index c, Index d) { all = all && std::isfinite(tensor.at(a, b, c, d)); });
  return all;
}

// Explicit attention in float64, only the lines this problem needs.
std::string reference(const Problem& p, const Contract& contract, const Exchange& exchange) {
  const auto has = [&](std::string_view name) { return input_of(exchange, name) != nullptr; };
  return "\n# what attention means, in float64\n" +
         std::string(p.hkv == 0 ? "group = 1\n" : "group = q.shape[1] // k.shape[1]\n") +
         "K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))\n"
         "s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))\n" +
         numpy_lines(p, contract,
                     {has("bias"), has("keep"), has("kv_lengths"), finite(*input_of(exchange, "v")), "expected"});
}

}  // namespace

std::string numpy_lines(const Problem& p, const Contract& contract, const NumpyCall& call) {
  const std::string cap = p.softcap > 0 ? fmt::format("s = {0} * np.tanh(s / {0})\n", in_python(p.softcap)) : "";
  const std::string add = call.bias ? "s = s + bias.astype(np.float64)\n" : "";
  std::string code = contract.softcap_before_bias ? cap + add : add + cap;
  const bool diagonal = p.causal || p.window_left >= 0 || p.window_right >= 0;
  if (diagonal || call.lengths) code += "i, j = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None, :]\n";
  const std::string keys = call.lengths ? "kv_lengths[:, None, None, None]" : "k.shape[2]";
  if (diagonal)
    code += p.align == Align::bottom_right ? fmt::format("g = i + {} - q.shape[2]\n", keys) : std::string("g = i\n");
  const auto mask = [&](const std::string& open) { code += fmt::format("s = np.where({}, s, -np.inf)\n", open); };
  if (call.lengths) mask("j < " + keys);
  if (call.keep) mask("keep");
  if (p.causal) mask("j <= g");
  if (p.window_left >= 0) mask(fmt::format("g - j <= {}", p.window_left));
  if (p.window_right >= 0) mask(fmt::format("j - g <= {}", p.window_right));
  code += fmt::format(
      "with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean\n"
      "    w = np.exp(s - s.max(-1, keepdims=True{}))\n"
      "    w = w / w.sum(-1, keepdims=True)\n",
      p.lk == 0 ? ", initial=-np.inf" : "");  // no keys have no maximum
  code += fmt::format("    {} = ", call.result);
  code += call.finite_values ? "w @ V\n"
                             : "np.where(s[..., None] == -np.inf, 0, w[..., None] * V[:, :, None]).sum(-2)"
                               "  # a masked NaN does not count\n";
  const auto empty_rows = [&](std::string_view value, std::string_view why) {
    code += fmt::format("{0} = np.where((s == -np.inf).all(-1, keepdims=True), {1}, {0})  # its contract: {2}\n",
                        call.result, value, why);
  };
  if (contract.empty_row == EmptyRow::zero) empty_rows("0.0", "zeros");
  if (contract.empty_row == EmptyRow::nan) empty_rows("np.nan", "NaN");
  if (contract.empty_row == EmptyRow::mean_all) empty_rows("V.mean(-2, keepdims=True)", "the mean of all values");
  if (contract.empty_row == EmptyRow::mean_v) {
    const std::string real = fmt::format("np.broadcast_to({}, s.shape)", call.lengths ? "j < " + keys : "True");
    code += fmt::format("real = {}\n", real);
    empty_rows("real / np.maximum(real.sum(-1, keepdims=True), 1) @ V", "the mean of the values");
  }
  return code;
}

PythonReference python(const Exchange& exchange, const Contract& contract) {
  return {reference(exchange.problem().as<Problem>(), contract, exchange), {}, [](std::string_view output) {
            if (output != "lse") return std::string();
            return std::string(
                "with np.errstate(invalid='ignore'):\n"
                "    top = s.max(-1)\n"
                "    lse = np.where(top == -np.inf, top, top + np.log(np.exp(s - top[..., None]).sum(-1)))\n");
          }};
}

}  // namespace attest::ops::of_attention

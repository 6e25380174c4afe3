// An attention block in NumPy, for exports.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "ops/attention/numpy.hpp"
#include "ops/mha/parts.hpp"
#include "ops/numpy_text.hpp"
#include "oracle/mha/way.hpp"

namespace attest::ops::of_mha {
namespace {

using attest::mha::Projected;

const Tensor* find(const std::vector<NamedTensor>& tensors, std::string_view name) {
  const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
  return found == tensors.end() ? nullptr : found->tensor;
}

bool all_finite(const Tensor& tensor) {
  std::array<Index, 4> n{1, 1, 1, 1};
  std::ranges::copy(tensor.shape(), n.begin());
  for (Index i0 = 0; i0 < n[0]; ++i0)
    for (Index i1 = 0; i1 < n[1]; ++i1)
      for (Index i2 = 0; i2 < n[2]; ++i2)
        if (!std::isfinite(tensor.at(i0, i1, i2))) return false;
  return true;
}

// Writes the script. It rounds in the first of the ways that the contract permits: evidence speaks of that one.
class Script {
 public:
  Script(const Exchange& exchange, const Contract& contract)
      : p_(exchange.problem().as<Problem>()),
        contract_(contract),
        inputs_(exchange.inputs()),
        outputs_(exchange.outputs()),
        way_(oracle::ways_of(contract).front()) {}

  [[nodiscard]] std::string text() const {
    const bool wide = p_.dtype == Format::f64;  // float64 numbers need a wider type beside them
    std::string code = fmt::format("\n# what an attention block means, in {}, rounded where its contract rounds{}\n",
                                   wide ? "longdouble" : "float64",
                                   has_stages() ? ", each stage from those before as the block gave them" : "");
    code += definitions(wide ? "np.longdouble" : "np.float64");
    code += projection("q", "x", p_.heads) + projection("k", memory(), p_.kv_heads) +
            projection("v", memory(), p_.kv_heads);
    code += fmt::format("K, V = (np.repeat(t, {}, axis=1) for t in (k, v))\n", p_.group());
    code += "s = scale * (q @ K.transpose(0, 1, 3, 2))\n";
    const bool finite = std::ranges::all_of(inputs_, [](const NamedTensor& input) {
      const bool of_values = input.name == "x" || input.name == "memory" || input.name == "w_v" || input.name == "b_v";
      return !of_values || all_finite(*input.tensor);
    });
    code += of_attention::numpy_lines(attention(), contract_.attention,
                                      {has("bias"), has("keep"), has("kv_lengths"), finite, expected("heads")});
    const std::string joined = expected("heads") + ".transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1)";
    code +=
        fmt::format("{} = {}\n", expected("heads"), way_.heads_rounded ? fmt::format("stored({})", joined) : joined);
    code += given("heads");
    const std::string product = "heads @ wide(w_out).T", bias = has("b_out") ? " + wide(b_out)" : "";
    const bool separate = way_.projected == Projected::separate;
    return code + fmt::format("expected = {}{}\n", separate ? fmt::format("stored({})", product) : product, bias);
  }

  [[nodiscard]] std::vector<NamedTensor> given_outputs() const {
    std::vector<NamedTensor> all = outputs_;
    std::erase_if(all, [](const NamedTensor& output) { return output.name == "out"; });
    return all;
  }

  // Leaves what is expected of a stage in a variable of its name.
  [[nodiscard]] std::string further(std::string_view stage) const {
    if (stage != "q" && stage != "k" && stage != "v" && stage != "heads") return {};
    if (find(outputs_, stage) != nullptr) return fmt::format("{0} = expected_{0}\n", stage);
    if (stage == "heads" || has_stages()) return {};  // the block gave its stages, and this script lacks this one
    return fmt::format("# {} as it is stored on the way\n", stage);
  }

 private:
  [[nodiscard]] bool has(std::string_view input) const { return find(inputs_, input) != nullptr; }
  [[nodiscard]] bool has_stages() const { return outputs_.size() > 1; }
  [[nodiscard]] std::string_view memory() const { return p_.self ? "x" : "memory"; }
  // The variable of a stage as it should be: it has the stage's name, unless the block's own stands there.
  [[nodiscard]] std::string expected(std::string_view stage) const {
    return find(outputs_, stage) != nullptr ? fmt::format("expected_{}", stage) : std::string(stage);
  }
  [[nodiscard]] std::string given(std::string_view stage) const {
    return find(outputs_, stage) != nullptr ? fmt::format("{0} = wide(given_{0})\n", stage) : std::string();
  }
  [[nodiscard]] attest::Problem attention() const {
    attest::Problem p;
    p.causal = p_.causal;
    p.align = p_.align;
    return p;
  }

  [[nodiscard]] std::string definitions(std::string_view wide) const {
    std::string code = numpy_definition(p_.dtype);
    if (!code.empty()) code += "\n";
    code += fmt::format("def wide(t):\n    return t.astype({})\n\n", wide);
    const bool stores = way_.projected != Projected::unrounded || way_.heads_rounded;
    if (stores) {
      code += fmt::format(
          "def stored(t):  # as it is stored between two products\n"
          "    with np.errstate(over='ignore'):\n"
          "        return wide({})\n\n",
          numpy_rounded(p_.dtype, "t"));
    }
    return code +
           "def split(t, heads):  # [b,tokens,width] as [b,heads,tokens,head_dim]\n"
           "    return t.reshape(*t.shape[:2], heads, -1).transpose(0, 2, 1, 3)\n\n";
  }

  [[nodiscard]] std::string projection(std::string_view stage, std::string_view tokens, Index heads) const {
    const bool dropped = stage == "k" && contract_.drops_b_k && has("b_k");
    std::string sum = fmt::format("wide({}) @ wide(w_{}).T", tokens, stage);
    const std::string bias = has(fmt::format("b_{}", stage)) && !dropped ? fmt::format(" + wide(b_{})", stage) : "";
    switch (way_.projected) {
      case Projected::unrounded:
        sum += bias;
        break;
      case Projected::rounded:
        sum = fmt::format("stored({}{})", sum, bias);
        break;
      case Projected::separate:
        sum = fmt::format("stored({})", sum);
        if (!bias.empty()) sum = fmt::format("stored({}{})", sum, bias);
        break;
    }
    return fmt::format("{} = split({}, {}){}\n", expected(stage), sum, heads,
                       dropped ? "  # its contract: without b_k, on which no softmax depends" : "") +
           given(stage);
  }

  const Problem& p_;
  const Contract& contract_;
  const std::vector<NamedTensor> inputs_, outputs_;
  const oracle::WayName way_;
};

}  // namespace

PythonReference python(const Exchange& exchange, const Contract& contract) {
  const Script script(exchange, contract);
  return {script.text(), script.given_outputs(), [script](std::string_view output) { return script.further(output); }};
}

}  // namespace attest::ops::of_mha

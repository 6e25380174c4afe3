// LayerNorm and RMSNorm in NumPy, for exports.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "ops/layer_norm/parts.hpp"
#include "ops/numpy_text.hpp"

namespace attest::ops::of_layer_norm {
namespace {

using attest::layer_norm::Norm;
using attest::layer_norm::Stage;
using attest::layer_norm::SumOf;

bool has(const Exchange& exchange, std::string_view name) {
  const auto inputs = exchange.inputs();
  return std::ranges::find(inputs, name, &NamedTensor::name) != inputs.end();
}

// x + residual as it is stored: `total`, in `wide`.
std::string stored_sum(Format storage, std::string_view wide) {
  const std::string sum = fmt::format("x.astype({0}) + residual.astype({0})", wide);
  if (storage == Format::f64)
    return fmt::format("total = (x + residual).astype({})  # stored, and then normalised\n", wide);
  return fmt::format("{}total = {}.astype({})  # stored, and then normalised\n", numpy_definition(storage),
                     numpy_rounded(storage, sum), wide);
}

std::string reference(const Problem& p, const Contract& contract, const Exchange& exchange) {
  const bool rms = p.norm == Norm::rms, residual = has(exchange, "residual");
  // Numbers that are stored in float64 need a wider type beside it.
  const std::string wide = p.dtype == Format::f64 ? "np.longdouble" : "np.float64";
  std::string code = fmt::format("\n# what {} means, in {}\n", rms ? "RMSNorm" : "LayerNorm", wide.substr(3));
  if (residual) code += stored_sum(p.dtype, wide);
  if (residual && contract.arithmetic.sum_of == SumOf::unrounded)
    code += fmt::format("t = x.astype({0}) + residual.astype({0})  # its contract: the sum is normalised unrounded\n",
                        wide);
  else
    code += residual ? std::string("t = total\n") : fmt::format("t = x.astype({})\n", wide);
  if (!rms) code += "t = t - t.mean(-1, keepdims=True)\n";
  code +=
      "with np.errstate(all='ignore'):\n"
      "    expected = t / np.sqrt((t * t).mean(-1, keepdims=True) + epsilon)\n";
  if (has(exchange, "gamma"))
    code +=
        fmt::format("expected = expected * {}\n",
                    contract.gamma_offset == 0 ? fmt::format("gamma.astype({})", wide)
                                               : fmt::format("({} + gamma.astype({}))", contract.gamma_offset, wide));
  if (has(exchange, "beta")) code += fmt::format("expected = expected + beta.astype({})\n", wide);
  return code;
}

}  // namespace

PythonReference python(const Exchange& exchange, const Contract& contract) {
  return {reference(exchange.problem().as<Problem>(), contract, exchange), {}, [](std::string_view output) {
            return std::string(output == "sum_out" ? "sum_out = total\n" : "");
          }};
}

}  // namespace attest::ops::of_layer_norm

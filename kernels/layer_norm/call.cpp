#include "kernels/layer_norm/call.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace attest::kernels::layer_norm {
namespace {

void check_storage(const char* name, const attest_tensor& tensor, Format storage, const Policy& policy) {
  if (!attest_present(&tensor)) return;
  const auto type = dtype_of(tensor.dtype);
  if (!type || *type != dtype_of(storage))
    throw usage_error(fmt::format("{} must be {}, the storage format of policy {}; choose a policy of its type", name,
                                  attest::name(storage), to_text(policy)));
}

}  // namespace

Call::Call(const attest_layer_norm& call, const Contract& the_contract)
    : tensors(call),
      contract(the_contract),
      rows(call.x.shape[0]),
      hidden(call.x.shape[1]),
      rms(call.rms != 0),
      has_residual(attest_present(&call.residual)),
      has_gamma(attest_present(&call.gamma)),
      has_beta(attest_present(&call.beta)),
      has_sum(attest_present(&call.sum_out)) {
  const Format storage = contract.policy[Stage::storage];
  check_storage("x", call.x, storage, contract.policy);
  check_storage("residual", call.residual, storage, contract.policy);
  check_storage("out", call.out, storage, contract.policy);
  check_storage("sum_out", call.sum_out, storage, contract.policy);
}

void Call::load_row(Index row, std::span<double> x) const {
  const Format sum = (*this)[Stage::sum], storage = (*this)[Stage::storage];
  const bool rounded = contract.arithmetic.sum_of == attest::layer_norm::SumOf::rounded;
  for (Index i = 0; i < hidden; ++i) {
    double& value = x[static_cast<std::size_t>(i)];
    value = load(tensors.x, row, i);
    if (!has_residual) continue;
    value = round_to(sum, value + load(tensors.residual, row, i));
    const double stored = round_to(storage, value);
    if (has_sum) store(tensors.sum_out, row, i, 0, 0, stored);
    if (rounded) value = stored;
  }
}

void Call::store_row(Index row, std::span<const double> y) const {
  const Format output = (*this)[Stage::output];
  for (Index i = 0; i < hidden; ++i) store(tensors.out, row, i, 0, 0, round_to(output, y[static_cast<std::size_t>(i)]));
}

std::vector<double> Call::gamma() const {
  std::vector<double> gamma(static_cast<std::size_t>(hidden), 1.0);
  if (has_gamma)
    for (Index i = 0; i < hidden; ++i)
      gamma[static_cast<std::size_t>(i)] =
          round_to((*this)[Stage::affine], contract.gamma_offset + load(tensors.gamma, i));
  return gamma;
}

std::vector<double> Call::beta() const {
  std::vector<double> beta(static_cast<std::size_t>(hidden), 0.0);
  if (has_beta)
    for (Index i = 0; i < hidden; ++i)
      beta[static_cast<std::size_t>(i)] = round_to((*this)[Stage::affine], load(tensors.beta, i));
  return beta;
}

}  // namespace attest::kernels::layer_norm

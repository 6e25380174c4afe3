// Arrays of a run made elsewhere as a call of layer_norm.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/error.hpp"
#include "core/layer_norm/inputs.hpp"
#include "ops/layer_norm/parts.hpp"
#include "ops/saved_arrays.hpp"

namespace attest::ops::of_layer_norm {
namespace {

using attest::layer_norm::Edit;
using attest::layer_norm::Inputs;
using attest::layer_norm::Norm;
using attest::layer_norm::ParamType;
using attest::layer_norm::Residual;
using attest::layer_norm::Stage;
using attest::layer_norm::Weights;

constexpr std::string_view roles[] = {"x", "residual", "gamma", "beta", "out", "sum_out"};

// [..., hidden] as [rows, hidden]; every value must be one of `format`.
Tensor rows_of(const NamedArray& array, Index rows, Index hidden, Format type, Format format, std::string_view stage) {
  const Index shape[] = {rows, hidden};
  Tensor tensor(dtype_of(type), shape);
  for (Index row = 0; row < rows; ++row)
    for (Index column = 0; column < hidden; ++column) {
      const double x = array.at(row * hidden + column);
      require_number_of(format, stage, x, array, std::array{row, column});
      tensor.set(row, column, 0, 0, x);
    }
  return tensor;
}

Tensor weights_of(const NamedArray& array, Index hidden, Format type) {
  Tensor tensor(dtype_of(type), std::array{hidden});
  for (Index column = 0; column < hidden; ++column) {
    const double x = array.at(column);
    require_number_of(type, "storage", x, array, std::array{column});
    tensor.set(column, 0, 0, 0, x);
  }
  return tensor;
}

// gamma and beta are of x's type, or of f32 beside a narrower one: where one of them was saved so beside an x that was
// not, or holds a number that the narrower has not.
Format params_format(Format storage, const NamedArray& x, const std::vector<const NamedArray*>& params) {
  if (storage == Format::f32 || storage == Format::f64) return storage;
  for (const NamedArray* array : params)
    if (array != nullptr &&
        ((format_of(array->type) == Format::f32 && format_of(x.type) == storage) || !holds_only(storage, *array)))
      return Format::f32;
  return storage;
}

}  // namespace

const std::vector<SavedWord>& saved_words() {
  static const std::vector<SavedWord> all{
      {"epsilon", "X", "added to the variance (1e-5)"},
      {"rms", "", "RMSNorm: no mean is taken off"},
      {"x", "NAME", "array of what is normalised, [..., hidden] (x)"},
      {"residual", "NAME", "array that is added to x first (residual, if there)"},
      {"gamma", "NAME", "array of the factors, [hidden] (gamma, if there)"},
      {"beta", "NAME", "array of what is added, [hidden] (beta, if there)"},
      {"out", "NAME", "array of the output (out)"},
      {"sum_out", "NAME", "array of x + residual (sum_out, if there)"},
      {"ignore", "NAME,...", "arrays of the inputs that this call does not use"},
      {"rows", "N", "judge so many rows of out, spread evenly (all)"},
  };
  return all;
}

std::vector<OtherCall> other_calls(const SavedWords& words) {
  std::vector<OtherCall> calls{{"it is RMSNorm: no mean is taken off", {{"rms", ""}}},
                               {"a mean is taken off", {{"rms", std::nullopt}}}};
  for (const char* epsilon : {"0", "1e-12", "1e-8", "1e-7", "1e-6", "1e-5", "1e-3"})
    calls.push_back({fmt::format("epsilon is {}", epsilon), {{"epsilon", epsilon}}});
  std::ranges::move(calls_with_ignored(words, {{"residual", "added to x first"},
                                               {"gamma", "the factors of the columns"},
                                               {"beta", "what is added to the columns"}}),
                    std::back_inserter(calls));
  return calls;
}

SavedCall saved_call(const std::vector<NamedArray>& in, const std::vector<NamedArray>& outputs, const Policy& policy,
                     const SavedWords& words) {
  const auto names = saved_names(words, roles);
  const auto ignored = saved_ignored(words);
  SavedArrays given(in, names, "inputs"), results(outputs, names, "outputs");
  const Format storage = policy[Stage::storage], output = policy[Stage::output];
  const NamedArray x = meant_array(*given.find("x", true), storage);
  const auto optional = [&](SavedArrays& from, const char* role, Format format) -> std::optional<NamedArray> {
    const NamedArray* array = from.find(role, false);
    return array == nullptr ? std::nullopt : std::optional(meant_array(*array, format));
  };
  const auto residual = optional(given, "residual", storage), gamma = optional(given, "gamma", storage),
             beta = optional(given, "beta", storage), sum_out = optional(results, "sum_out", storage);
  const std::optional<NamedArray> out =
      words.answered ? std::optional(meant_array(*results.find("out", true), output)) : std::nullopt;
  const auto at = [](const std::optional<NamedArray>& array) { return array ? &*array : nullptr; };
  refuse_unused(given.unused(ignored), {at(out), at(sum_out)}, "--residual, --gamma, --beta");
  if (x.shape.empty()) throw usage_error(fmt::format("{} is {}: it must be [..., hidden]", x.name, x.described()));
  if (out) require_shape(*out, x.shape, x.name);
  if (residual) require_shape(*residual, x.shape, x.name);
  if (sum_out) require_shape(*sum_out, x.shape, x.name);
  if (sum_out && !residual)
    throw usage_error(fmt::format("{} is there and no residual that is in it: say which array is, with --residual NAME",
                                  sum_out->name));
  const Index hidden = x.shape.back(), rows = hidden > 0 ? x.size() / hidden : 0;
  for (const auto* params : {&gamma, &beta})
    if (*params) require_shape(**params, {hidden}, "the last axis of " + x.name);

  const Format of_params = params_format(storage, x, {at(gamma), at(beta)});
  Problem problem;
  problem.rows = rows;
  problem.hidden = hidden;
  problem.dtype = storage;
  problem.norm = words.flag("rms") ? Norm::rms : Norm::layer;
  problem.epsilon = saved_real(words, "epsilon").value_or(1e-5);
  problem.residual = residual ? Residual::like_x : Residual::none;
  problem.sum_out = sum_out.has_value();
  problem.gamma = gamma ? Weights::near : Weights::none;
  problem.beta = beta ? Weights::near : Weights::none;
  problem.param_type = of_params == storage ? ParamType::same : ParamType::f32;
  problem.judged = saved_count(words, "rows", 1).value_or(0);
  validate(problem);

  Inputs inputs;
  inputs.x = rows_of(x, rows, hidden, storage, storage, "storage");
  if (residual) inputs.residual = rows_of(*residual, rows, hidden, storage, storage, "storage");
  if (gamma) inputs.gamma = weights_of(*gamma, hidden, of_params);
  if (beta) inputs.beta = weights_of(*beta, hidden, of_params);
  inputs.epsilon = problem.epsilon;
  inputs.norm = problem.norm;
  Tensor out_tensor = out ? rows_of(*out, rows, hidden, storage, narrower(output, storage) ? output : storage, "output")
                          : Tensor(dtype_of(storage), std::array{rows, hidden}),
         sum;
  if (sum_out) sum = rows_of(*sum_out, rows, hidden, storage, storage, "storage");

  SavedCall call;
  call.exchange = exchange(problem, std::move(inputs), std::move(out_tensor), std::move(sum));
  std::vector<const NamedArray*> stored{&x};
  if (residual) stored.push_back(&*residual);
  note_widened(stored, storage, call.notes);
  for (const auto* params : {&gamma, &beta})
    if (*params && format_of((*params)->type) != of_params) note_widened({&**params}, of_params, call.notes);
  if (out) note_narrowed(*out, output, call.notes);
  note_unjudged(results.unused(ignored), in, call.notes);
  return call;
}

Problem saved_problem(const Exchange& saved, Evidence& witness) {
  Problem problem = saved.problem().as<Problem>();
  Index row0 = 0;
  if (problem.elements() > most_saved_numbers / 4) {
    row0 = std::exchange(witness.index[0], 0);
    problem.rows = 1;
  }
  problem.judged = 0;
  problem.values = attest::layer_norm::Values::constant;
  constexpr std::string_view names[] = {"x", "residual", "gamma", "beta"};
  for (const NamedTensor& input : saved.inputs()) {
    const auto which = static_cast<Edit::Tensor>(std::ranges::find(names, input.name) - std::begin(names));
    const bool matrix = input.tensor->shape().size() == 2;
    for (Index row = 0; row < (matrix ? problem.rows : 1); ++row)
      for (Index column = 0; column < problem.hidden; ++column)
        problem.edits.push_back(
            {which, row, column, matrix ? input.tensor->at(row0 + row, column) : input.tensor->at(column)});
  }
  if (std::ssize(problem.edits) > most_saved_numbers) require_few_numbers(saved.inputs());
  return problem;
}

}  // namespace attest::ops::of_layer_norm

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "core/edit.hpp"
#include "core/inputs.hpp"
#include "ops/attention/parts.hpp"

namespace attest::ops::of_attention {
namespace {

using Candidate = std::pair<Problem, std::string>;
constexpr Index most_elements = 24;  // the elements of q, k and v together

struct EditedTensor {
  Edit::Tensor name;
  const Tensor& tensor;
  Layout layout;
};

void zero(Problem& problem, Edit::Tensor tensor, const std::array<Index, 4>& index) {
  const auto same = [&](const Edit& edit) { return edit.tensor == tensor && edit.index == index; };
  std::erase_if(problem.edits, same);
  problem.edits.push_back({tensor, index, 0});
}

void zero_rows_and_elements(const Problem& problem, const EditedTensor& operand, std::vector<Candidate>& found) {
  const auto shape = operand.tensor.shape();
  const std::string_view name = attest::name(operand.name);
  std::vector<Candidate> elements;
  for (Index b = 0; b < shape[0]; ++b)
    for (Index h = 0; h < shape[1]; ++h)
      for (Index i = 0; i < shape[2]; ++i) {
        Problem without_row = problem;
        Index zeroed = 0;
        for (Index c = 0; c < shape[3]; ++c) {
          const double value = operand.tensor.at(b, h, i, c);
          if (value == 0 || value == 1) continue;
          zero(without_row, operand.name, {b, h, i, c});
          ++zeroed;
          Problem without_element = problem;
          zero(without_element, operand.name, {b, h, i, c});
          elements.push_back({std::move(without_element), fmt::format("{}[{},{},{},{}] -> 0", name, b, h, i, c)});
        }
        if (zeroed > 1) found.push_back({std::move(without_row), fmt::format("{}[{},{},{},:] -> 0", name, b, h, i)});
      }
  std::ranges::move(elements, std::back_inserter(found));
}

}  // namespace

std::vector<Candidate> zeroed_elements(const Problem& problem) {
  std::vector<Candidate> found;
  const Index queries = problem.b * problem.hq * problem.lq * problem.d;
  const Index keys = problem.b * problem.hkv * problem.lk * (problem.d + problem.dv);
  if (queries + keys > most_elements) return found;
  const Inputs inputs = materialise(problem);
  const EditedTensor operands[] = {{Edit::Tensor::q, inputs.q, problem.q_layout},
                                   {Edit::Tensor::k, inputs.k, problem.k_layout},
                                   {Edit::Tensor::v, inputs.v, problem.v_layout}};
  constexpr Form Problem::*forms[] = {&Problem::q_form, &Problem::k_form, &Problem::v_form};
  for (std::size_t i = 0; i < std::size(operands); ++i)
    if (operands[i].layout == Layout::bhsd && problem.*forms[i] != Form::zero)
      zero_rows_and_elements(problem, operands[i], found);
  return found;
}

std::optional<Problem> literal(const Problem& problem, Index most) {
  if (problem.values != Values::file) return std::nullopt;
  const Index queries = problem.b * problem.hq * problem.lq * problem.d;
  const Index keys = problem.b * problem.hkv * problem.lk * (problem.d + problem.dv);
  if (queries + keys > most) return std::nullopt;
  const Inputs inputs = materialise(problem);
  Problem plain = problem;
  plain.values = Values::constant;
  plain.values_file.clear();
  plain.q_form = plain.k_form = plain.v_form = Form::zero;
  std::erase_if(plain.edits, [](const Edit& edit) { return edit.tensor <= Edit::Tensor::v; });
  const std::pair<Edit::Tensor, const Tensor*> operands[] = {
      {Edit::Tensor::q, &inputs.q}, {Edit::Tensor::k, &inputs.k}, {Edit::Tensor::v, &inputs.v}};
  for (const auto& [name, tensor] : operands) {
    std::array<Index, 4> n{};  // an axis that broadcasts has one element
    for (std::size_t axis = 0; axis < 4; ++axis)
      n[axis] = tensor->strides()[axis] == 0 ? std::min<Index>(tensor->shape()[axis], 1) : tensor->shape()[axis];
    for (Index b = 0; b < n[0]; ++b)
      for (Index h = 0; h < n[1]; ++h)
        for (Index i = 0; i < n[2]; ++i)
          for (Index c = 0; c < n[3]; ++c)
            if (const double x = tensor->at(b, h, i, c); x != 0 || std::signbit(x))
              plain.edits.push_back({name, {b, h, i, c}, x});
  }
  return plain;
}

}  // namespace attest::ops::of_attention

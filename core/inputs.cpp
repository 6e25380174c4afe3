#include "core/inputs.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/encode.hpp"
#include "core/values.hpp"

namespace attest {
namespace {

// Layout::far: the last index of an axis of up to 16 is past 2^32 elements, at steps that keep alignment.
constexpr Index most_far_apart = 16, far_reach = Index{1} << 32, far_step = 256;

constexpr std::array<Index, 4> row_major(const std::array<Index, 4>& n) {
  return {n[1] * n[2] * n[3], n[2] * n[3], n[3], 1};
}

void store_row(const attest_tensor& tensor, DType type, Index i0, Index i1, Index i2, std::span<const double> row) {
  auto* first = static_cast<std::byte*>(attest_at(&tensor, i0, i1, i2, 0));
  encode(type, row, first, row.size() == 1 ? 1 : tensor.strides[3]);
}

// Tells whether a tensor's elements lie one row after the other, which are stored at once.
bool is_row_major(const std::array<Index, 4>& shape, const std::array<Index, 4>& strides) {
  Index dense = 1;
  for (std::size_t axis = 4; axis-- > 0; dense *= shape[axis])
    if (shape[axis] != 1 && strides[axis] != dense) return false;
  return true;
}

// The extents of what lies in memory: one element along the axes of `shared`.
std::array<Index, 4> stored(std::array<Index, 4> shape, unsigned shared) {
  for (std::size_t axis = 0; axis < 4; ++axis)
    if (shared >> axis & 1) shape[axis] = std::min<Index>(shape[axis], 1);
  return shape;
}

// Room for what is drawn before it is stored, one a thread: problem after problem asks for some.
double* numbers_of_thread(std::size_t count) {
  thread_local std::vector<double> room;
  if (room.size() < count) room.resize(count);
  return room.data();
}

struct Origin {
  Index batch, head, position, column;
};

// q, k or v. Along a broadcast axis every index is the first one, whatever the origin: slices stay slices.
Tensor make_operand(const Problem& problem, Edit::Tensor which, Layout layout, const std::array<Index, 4>& shape,
                    Origin origin) {
  const DType type = dtype_of(problem.dtype);
  const Placement placement = place(layout, shape);
  Tensor tensor = Tensor::to_be_written(type, shape, placement.strides, placement.base_offset);
  const attest_tensor view = tensor.view();
  const bool one_batch = layout == Layout::broadcast_batch, one_head = layout == Layout::broadcast_heads,
             one_row = layout == Layout::broadcast_rows;
  const std::array<Index, 4> own = stored(shape, (one_batch ? 1u : 0u) | (one_head ? 2u : 0u) | (one_row ? 4u : 0u));
  const auto [samples, heads, length, width] = own;
  if (samples * heads * length * width == 0) return tensor;
  // The number of rows that a cache holds at once: of whole heads, or of whole samples, if these are small.
  constexpr Index most = 2048;
  const Index rows_at_once = std::clamp<Index>(most / width, 1, length),
              heads_at_once = rows_at_once < length ? 1 : std::clamp<Index>(most / (length * width), 1, heads),
              samples_at_once =
                  heads_at_once < heads ? 1 : std::clamp<Index>(most / (heads * length * width), 1, samples);
  const bool dense = is_row_major(own, placement.strides);
  double* const drawn =
      numbers_of_thread(static_cast<std::size_t>(samples_at_once * heads_at_once * rows_at_once * width));
  for (Index b = 0; b < samples; b += samples_at_once)
    for (Index h = 0; h < heads; h += heads_at_once)
      for (Index i = 0; i < length; i += rows_at_once) {
        const DrawnBlock block{.batch = one_batch ? 0 : origin.batch + b,
                               .samples = std::min(samples_at_once, samples - b),
                               .head = one_head ? 0 : origin.head + h,
                               .heads = std::min(heads_at_once, heads - h),
                               .position = one_row ? 0 : origin.position + i,
                               .length = std::min(rows_at_once, length - i),
                               .first_column = origin.column,
                               .width = width};
        const auto rows = static_cast<std::size_t>(block.samples * block.heads * block.length),
                   columns = static_cast<std::size_t>(width);
        const std::span<double> values = {drawn, rows * columns};
        draw_block(problem, which, block, values);
        if (dense) {
          encode(type, values, static_cast<std::byte*>(attest_at(&view, b, h, i, 0)));
          continue;
        }
        std::span<const double> rest = values;
        for (Index at_b = b; at_b < b + block.samples; ++at_b)
          for (Index at_h = h; at_h < h + block.heads; ++at_h)
            for (Index at_i = i; at_i < i + block.length; ++at_i, rest = rest.subspan(columns))
              store_row(view, type, at_b, at_h, at_i, rest.first(columns));
      }
  return tensor;
}

// keep or bias: [B,Hq,Lq,Lk], stride 0 along the axes that `axes` leaves out.
template <class Draw>
Tensor make_mask(const Problem& p, DType type, Index axes, Draw&& draw) {
  const std::array<Index, 4> shape{p.b, p.hq, p.lq, p.lk};
  const unsigned shared = ~static_cast<unsigned>(axes) & 15u;
  const Placement placement = place(p.mask_layout, shape, shared);
  const std::array<Index, 4> physical = stored(shape, shared);
  Tensor tensor = Tensor::to_be_written(type, shape, placement.strides, placement.base_offset);
  const attest_tensor view = tensor.view();
  const std::span<double> row = {numbers_of_thread(static_cast<std::size_t>(physical[3])),
                                 static_cast<std::size_t>(physical[3])};
  for (Index b = 0; b < physical[0]; ++b)
    for (Index h = 0; h < physical[1]; ++h)
      for (Index i = 0; i < physical[2]; ++i) {
        draw(p, axes & 1 ? p.b0 + b : 0, axes & 2 ? p.hq0 + h : 0, axes & 4 ? p.lq0 + i : 0, row);
        store_row(view, type, b, h, i, row);
      }
  return tensor;
}

Tensor make_lengths(const Problem& problem) {
  const Index shape[] = {problem.b};
  Tensor tensor(DType::i32, shape);
  for (Index b = 0; b < problem.b; ++b)
    tensor.set(b, 0, 0, 0, static_cast<double>(draw_length(problem, problem.b0 + b)));
  return tensor;
}

void apply(const Edit& edit, Inputs& inputs) {
  Tensor& tensor = inputs.*Inputs::members[static_cast<std::size_t>(edit.tensor)];
  tensor.set(edit.index[0], edit.index[1], edit.index[2], edit.index[3], edit.value);
}

}  // namespace

Placement place(Layout layout, const std::array<Index, 4>& shape) {
  std::array<Index, 4> n;
  std::transform(shape.begin(), shape.end(), n.begin(), [](Index extent) { return std::max<Index>(extent, 1); });
  Placement placement{row_major(n), 0};
  auto& s = placement.strides;
  switch (layout) {
    case Layout::bhsd:
      break;
    case Layout::bshd:
      s = {n[2] * n[1] * n[3], n[3], n[1] * n[3], 1};
      break;
    case Layout::padded_rows:
      s = row_major({n[0], n[1], n[2], n[3] + 3 - n[3] % 2});
      break;
    case Layout::odd_base:
      placement.base_offset = 1;
      break;
    case Layout::spaced:
      for (Index& stride : s) stride *= 2;
      break;
    case Layout::transposed:
      s[2] = 1, s[3] = n[2];
      break;
    case Layout::slice:
      s = row_major({n[0], n[1], n[2] + 1, n[3] + 1 + n[3] % 2});
      placement.base_offset = s[2] + 1;
      break;
    case Layout::far:
      for (const std::size_t axis : {0u, 1u, 2u})
        if (n[axis] >= 2 && n[axis] <= most_far_apart) {
          std::array<Index, 4> inner = n;
          inner[axis] = 1;
          s = row_major(inner);
          s[axis] = (far_reach / (n[axis] - 1) / far_step + 1) * far_step;
          break;
        }
      break;
    case Layout::broadcast_batch:
      s[0] = 0;
      break;
    case Layout::broadcast_heads:
      s = {n[2] * n[3], 0, n[3], 1};
      break;
    case Layout::broadcast_rows:
      s = {n[1] * n[3], n[3], 0, 1};
      break;
  }
  return placement;
}

Placement place(Layout layout, const std::array<Index, 4>& shape, unsigned shared) {
  Placement placement = place(layout, stored(shape, shared));
  for (std::size_t axis = 0; axis < 4; ++axis)
    if (shared >> axis & 1) placement.strides[axis] = 0;
  return placement;
}

Inputs materialise(const Problem& problem) {
  validate(problem);
  const Problem& p = problem;
  Inputs inputs;
  inputs.q = make_operand(p, Edit::Tensor::q, p.q_layout, {p.b, p.hq, p.lq, p.d}, {p.b0, p.hq0, p.lq0, p.d0});
  inputs.k = make_operand(p, Edit::Tensor::k, p.k_layout, {p.b, p.hkv, p.lk, p.d}, {p.b0, p.hkv0, p.lk0, p.d0});
  inputs.v = make_operand(p, Edit::Tensor::v, p.v_layout, {p.b, p.hkv, p.lk, p.dv}, {p.b0, p.hkv0, p.lk0, p.dv0});
  if (p.bias != Bias::none) inputs.bias = make_mask(p, dtype_of(p.bias_format()), p.bias_axes, draw_bias_row);
  if (p.keep != Keep::none) inputs.keep = make_mask(p, DType::boolean, p.keep_axes, draw_keep_row);
  if (p.lengths != Lengths::none) inputs.kv_lengths = make_lengths(p);
  for (const Edit& edit : p.edits) apply(edit, inputs);
  inputs.scale = p.effective_scale();
  inputs.scale_is_default = !p.scale;
  inputs.softcap = p.softcap;
  inputs.causal = p.causal;
  inputs.align = p.align;
  inputs.window_left = p.window_left;
  inputs.window_right = p.window_right;
  inputs.threads = p.threads;
  inputs.form = forms_json(p.forms);
  return inputs;
}

Tensor make_out(const Problem& problem, std::uint64_t fence) {
  const std::array<Index, 4> shape{problem.b, problem.hq, problem.lq, problem.dv};
  const Placement placement = place(problem.out_layout, shape);
  Tensor out = Tensor::to_be_written(dtype_of(problem.dtype), shape, placement.strides, placement.base_offset);
  out.poison(fence);
  return out;
}

Tensor make_lse(const Problem& problem, std::uint64_t fence) {
  if (problem.lse == LseOutput::none) return {};
  const Index shape[] = {problem.b, problem.hq, problem.lq};
  Tensor lse(problem.lse == LseOutput::f64 ? DType::f64 : DType::f32, shape);
  lse.poison(fence);
  return lse;
}

std::vector<Index> judged_rows(const Problem& problem) {
  const Index all = problem.b * problem.hq * problem.lq;
  return drawn(problem.rows == 0 ? all : problem.rows, all, problem.seed);
}

attest_attention Inputs::call(const Tensor& out, const Tensor& lse) const noexcept {
  attest_attention call{};
  call.struct_size = sizeof call;
  call.flags = scale_is_default ? ATTEST_SCALE_IS_DEFAULT : 0;
  call.q = q.view();
  call.k = k.view();
  call.v = v.view();
  call.bias = bias.view();
  call.keep = keep.view();
  call.kv_lengths = kv_lengths.view();
  call.out = out.view();
  call.lse = lse.view();
  call.scale = scale;
  call.softcap = softcap;
  call.causal = causal;
  call.align = align == Align::bottom_right ? ATTEST_BOTTOM_RIGHT : ATTEST_TOP_LEFT;
  call.window_left = window_left;
  call.window_right = window_right;
  call.threads = static_cast<std::int32_t>(threads);
  call.form = form.empty() ? nullptr : form.c_str();
  return call;
}

std::vector<Inputs::Named> Inputs::named() const {
  const auto& slots = call_shape<attest_attention>().tensors;
  std::vector<Named> found;
  found.reserve(members.size());
  for (std::size_t i = 0; i < members.size(); ++i)
    if (const Tensor& tensor = this->*members[i]; tensor.present()) found.push_back({slots[i].name, tensor});
  return found;
}

Inputs Inputs::clone() const {
  Inputs copy;
  for (const auto member : members) copy.*member = (this->*member).clone();
  copy.set_options(*this);
  return copy;
}

}  // namespace attest

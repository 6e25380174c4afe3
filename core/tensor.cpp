#include "core/tensor.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/nest.hpp"

namespace attest {
namespace {

constexpr std::size_t alignment = 256;  // alignment of the first element, in bytes: the most that a subject may ask for
constexpr std::size_t least_guard = 256, guard_step = 64;
constexpr std::size_t most_bytes = std::size_t{1} << 32;
constexpr std::size_t far_bytes = std::size_t{1} << 27;      // from one index of an axis to the next, at least
constexpr std::size_t most_reserved = std::size_t{1} << 37;  // by one tensor

std::size_t round_up(std::size_t n, std::size_t to) noexcept { return (n + to - 1) / to * to; }

// Bits that no kernel computes by accident: a NaN of a floating-point type, with a payload where there is one.
std::uint64_t poison_bits(DType type) noexcept {
  if (!is_floating(type)) return type == DType::i32 ? 0x7DADADAD : 0xAD;
  const FormatTraits& row = traits(stored_formats[static_cast<std::size_t>(type)]);
  constexpr std::uint64_t payload = 0xADADADADADADADAD;
  return row.has_infinity() ? row.past_code | (payload & ((std::uint64_t{1} << (row.precision - 1)) - 1))
                            : row.nan_code;
}

}  // namespace

DType dtype_of(Format format) {
  const auto found = std::ranges::find(stored_formats, format);
  if (found == stored_formats.end())
    throw internal_error(std::string(name(format)) + " never lies in memory: store f32");
  return static_cast<DType>(found - stored_formats.begin());
}

Format format_of(DType type) {
  if (!is_floating(type)) throw internal_error("a mask or length tensor has no floating-point format");
  return stored_formats[static_cast<std::size_t>(type)];
}

double load(const attest_tensor& tensor, Index i0, Index i1, Index i2, Index i3) noexcept {
  const void* const from = attest_at(&tensor, i0, i1, i2, i3);
  return with_element(*dtype_of(tensor.dtype), [from](auto element) { return element.load(from); });
}

void store(const attest_tensor& tensor, Index i0, Index i1, Index i2, Index i3, double value) noexcept {
  void* const to = attest_at(&tensor, i0, i1, i2, i3);
  with_element(*dtype_of(tensor.dtype), [to, value](auto element) { element.store(to, value); });
}

namespace {
// A whole row at least, so that a kernel that runs on by one meets NaN.
std::size_t guard_for(std::span<const Index> shape, std::span<const Index> strides, std::size_t width) noexcept {
  const Index row = shape.empty() ? 1 : shape.back() * (strides.empty() ? 1 : std::max<Index>(strides.back(), 1));
  return round_up(std::max(least_guard, static_cast<std::size_t>(std::min<Index>(row, 65536)) * width), guard_step);
}

bool is_empty(std::span<const Index> shape) noexcept { return std::ranges::find(shape, 0) != shape.end(); }

// Returns how many elements the last one lies behind the first, where there is one.
std::size_t last_offset(std::span<const Index> shape, std::span<const Index> strides) noexcept {
  std::size_t last = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    last += static_cast<std::size_t>(shape[axis] - 1) * static_cast<std::size_t>(strides[axis]);
  return last;
}

// The parts of a tensor, `first` left open.
MemoryParts parts_of(std::span<const Index> shape, std::span<const Index> strides, std::size_t width,
                     std::size_t guard) noexcept {
  MemoryParts one{nullptr, 2 * guard, 0, 1};
  if (is_empty(shape)) return one;
  const std::size_t last = last_offset(shape, strides);
  std::size_t far = 0;  // the axis that reaches furthest
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    if (shape[axis] > 1 && (shape[far] == 1 || strides[axis] > strides[far])) far = axis;
  one.size += (last + 1) * width;
  if (shape.empty() || shape[far] == 1) return one;
  const auto step = static_cast<std::size_t>(strides[far]), count = static_cast<std::size_t>(shape[far]);
  const std::size_t size = 2 * guard + (last - (count - 1) * step + 1) * width;
  if (step * width < far_bytes || step * width < size) return one;
  return {nullptr, size, step * width, count};
}
}  // namespace

bool past_32_bits(std::span<const Index> shape, std::span<const Index> strides) noexcept {
  return !is_empty(shape) && last_offset(shape, strides) > std::numeric_limits<std::int32_t>::max();
}

MemoryParts parts_of(const attest_tensor& view) noexcept {
  const auto axes = static_cast<std::size_t>(view.ndim);
  const std::size_t guard = guard_bytes(view);
  MemoryParts parts = parts_of({view.shape, axes}, {view.strides, axes}, view.dtype.bits / 8u, guard);
  parts.first = static_cast<std::byte*>(view.data) + view.byte_offset - guard;
  return parts;
}

std::size_t guard_bytes(const attest_tensor& view) noexcept {
  const auto axes = static_cast<std::size_t>(view.ndim);
  return guard_for({view.shape, axes}, {view.strides, axes}, view.dtype.bits / 8u);
}

namespace {
// Large memory is asked for in large pages, so that it becomes real in few steps.
void* large(void* memory, std::size_t size) noexcept {
#ifdef MADV_HUGEPAGE
  constexpr std::size_t least = std::size_t{1} << 25, page = 1 << 12;
  const std::size_t offset = -reinterpret_cast<std::uintptr_t>(memory) % page;
  if (size >= least) (void)::madvise(static_cast<std::byte*>(memory) + offset, size - offset, MADV_HUGEPAGE);
#endif
  return memory;
}

// Room for a block and its parts, its beginning, and the allocation: aligned here, which costs less than to ask for it.
// A block in several parts is mapped, not allocated: the pages between them never become real.
struct Room {
  void *block, *allocated;
};
// Throws NotReserved if the system does not even reserve what lies between them.
Room make_room(std::size_t header, const MemoryParts& parts) {
  const std::size_t size = header + parts.span();
  if (parts.count == 1) {
    void* const allocated = large(::operator new(size + alignment), size + alignment);
    return {static_cast<std::byte*>(allocated) + -reinterpret_cast<std::uintptr_t>(allocated) % alignment, allocated};
  }
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    throw NotReserved(
        "the system reserves no memory for a tensor whose parts lie far apart, of which little would be used: "
        "raise its limit (ulimit -v, vm.overcommit_memory)");
  return {memory, memory};
}
}  // namespace

// This block lies at the beginning of its room; its header is known.
void Tensor::Block::lie_in(void* room) noexcept {
  allocated = room;
  parts.first = reinterpret_cast<std::byte*>(this) + header;
  first = parts.first + guard + base;
}

void Tensor::Free::operator()(Block* block) const noexcept {
  const MemoryParts parts = block->parts;
  const std::size_t header = block->header;
  void* const room = block->allocated;
  block->~Block();
  if (parts.count == 1)
    ::operator delete(room);
  else
    ::munmap(room, header + parts.span());
}

Tensor::Tensor(DType type, std::span<const Index> shape, std::span<const Index> strides, Index base_offset,
               bool unset) {
  const std::size_t width = size_of(type);
  unsigned __int128 last = 0;
  bool empty = false;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    empty = empty || shape[axis] == 0;
    last +=
        static_cast<unsigned __int128>(std::max<Index>(shape[axis] - 1, 0)) * static_cast<std::uint64_t>(strides[axis]);
  }
  const unsigned __int128 needed = empty ? 0 : (last + 1 + static_cast<unsigned __int128>(base_offset)) * width;
  const std::size_t guard = guard_for(shape, strides, width);
  MemoryParts parts = parts_of(shape, strides, width, guard);
  const bool far = parts.count > 1 && base_offset == 0;
  if (far ? needed > most_reserved || parts.count * parts.size > most_bytes : needed > most_bytes)
    throw TooLarge("a tensor of this problem spans " + std::to_string(static_cast<std::uint64_t>(needed >> 20)) +
                   " MiB, past the limit of 4096: choose smaller dimensions");
  const std::size_t base = static_cast<std::size_t>(base_offset) * width;
  const std::size_t elements = std::max(static_cast<std::size_t>(needed), base + width);
  if (!far) parts = {nullptr, guard + elements + guard, 0, 1};
  // The size with which elements begin at a multiple of `alignment`.
  const std::size_t header = round_up(sizeof(Block) + guard, alignment) - guard;
  const Room room = make_room(header, parts);
  block_.reset(new (room.block) Block);
  block_->parts = parts;
  block_->header = header;
  block_->type = type;
  block_->plugin_type = plugin_dtype(type);
  block_->ndim = static_cast<std::int32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), block_->shape);
  std::copy(strides.begin(), strides.end(), block_->strides);
  block_->guard = guard;
  block_->base = base;
  block_->elements = elements;
  block_->lie_in(room.allocated);
  const MemoryParts& all = block_->parts;
  bool repeats = false;  // elements that lie in one place leave others without one
  for (std::size_t axis = 0; axis < shape.size(); ++axis) repeats |= shape[axis] > 1 && strides[axis] == 0;
  block_->dense = !repeats && all.count == 1 && static_cast<std::size_t>(block_->size()) * width == elements;
  if (unset && block_->dense) {
    std::memset(all.first, 0xFF, guard);
    std::memset(all.first + guard + elements, 0xFF, guard);
    return;
  }
  for (std::size_t n = 0; n < all.count; ++n) std::memset(all.part(n).data(), 0xFF, all.size);
}

namespace {
std::array<Index, 4> row_major(std::span<const Index> shape) noexcept {
  std::array<Index, 4> strides{};
  Index stride = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = stride;
    // Past every limit the constructor refuses the shape; it only must not wrap round first.
    if (__builtin_mul_overflow(stride, std::max<Index>(shape[axis], 1), &stride)) stride = Index{1} << 62;
  }
  return strides;
}
}  // namespace

Tensor::Tensor(DType type, std::span<const Index> shape)
    : Tensor(type, shape, std::span<const Index>(row_major(shape)).first(shape.size())) {}

DType Tensor::dtype() const noexcept { return block_->type; }
std::span<const Index> Tensor::shape() const noexcept {
  return block_ ? std::span<const Index>(block_->shape, static_cast<std::size_t>(block_->ndim))
                : std::span<const Index>{};
}
std::span<const Index> Tensor::strides() const noexcept {
  return block_ ? std::span<const Index>(block_->strides, static_cast<std::size_t>(block_->ndim))
                : std::span<const Index>{};
}
Index Tensor::size() const noexcept { return block_ ? block_->size() : 0; }

attest_tensor Tensor::view() const noexcept {
  attest_tensor tensor{};
  tensor.device = {ATTEST_CPU, 0};
  if (!block_) return tensor;
  tensor.data = block_->first;
  tensor.ndim = block_->ndim;
  tensor.dtype = block_->plugin_type;
  tensor.shape = block_->shape;
  tensor.strides = block_->strides;
  return tensor;
}

MemoryParts Tensor::parts() const noexcept { return block_ ? block_->parts : MemoryParts{}; }
std::span<std::byte> Tensor::span_bytes() const noexcept {
  return block_ ? std::span<std::byte>(block_->after_guard(), block_->elements) : std::span<std::byte>{};
}

Tensor Tensor::clone() const {
  Tensor copy;
  if (!block_) return copy;
  const Room room = make_room(block_->header, block_->parts);
  copy.block_.reset(new (room.block) Block(*block_));
  copy.block_->lie_in(room.allocated);
  const MemoryParts from = parts(), to = copy.parts();
  for (std::size_t n = 0; n < from.count; ++n) std::memcpy(to.part(n).data(), from.part(n).data(), from.size);
  return copy;
}

void Tensor::poison(std::uint64_t fence) noexcept {
  if (!block_) return;
  if (fence != block_->fence) {
    block_->fence = fence;
    const MemoryParts all = parts();
    const auto fill = [fence](std::span<std::byte> part, std::size_t from, std::size_t count) {
      Filling{fence, part.data()}.fill(part.data() + from, count);
    };
    if (block_->dense) {
      fill(all.part(0), 0, block_->guard);
      fill(all.part(0), all.size - block_->guard, block_->guard);
    } else {
      for (std::size_t n = 0; n < all.count; ++n) fill(all.part(n), 0, all.size);
    }
  }
  fill_elements(Nest(block_->shape, block_->strides), size_of(block_->type), block_->first, poison_bits(block_->type));
}

void Tensor::fill(double value) noexcept {
  if (!block_ || size() == 0) return;
  set(0, 0, 0, 0, value);
  std::uint64_t bits = 0;
  std::memcpy(&bits, block_->first, size_of(block_->type));
  fill_elements(Nest(block_->shape, block_->strides), size_of(block_->type), block_->first, bits);
}

bool Tensor::is_poison(Index i0, Index i1, Index i2, Index i3) const noexcept {
  const std::uint64_t bits = poison_bits(block_->type);
  return std::memcmp(block_->at(i0, i1, i2, i3), &bits, size_of(block_->type)) == 0;
}

Tensor::Damage Tensor::damage() const noexcept {
  if (!block_) return Damage::none;
  const MemoryParts all = parts();
  const auto stand = [this](std::span<const std::byte> part, std::size_t from, std::size_t count) {
    return Filling{block_->fence, part.data()}.stands(part.data() + from, count);
  };
  if (!stand(all.part(0), 0, block_->guard)) return Damage::before;
  if (!stand(all.part(all.count - 1), all.size - block_->guard, block_->guard)) return Damage::after;
  const std::size_t width = size_of(block_->type);
  if (block_->dense) return Damage::none;
  const Nest nest(block_->shape, block_->strides);
  if (nest.axes > 0 && nest.apart && all.count == 1) {
    const Filling fence{block_->fence, all.first};
    const bool whole =
        fence.stands(block_->after_guard(), block_->base) && gaps_stand(fence, nest, nest.axes, width, block_->first);
    return whole ? Damage::none : Damage::gap;
  }
  // Otherwise the bytes that remain once every element holds the bytes of gaps.
  std::vector<std::byte> rest(all.count * all.size);
  for (std::size_t n = 0; n < all.count; ++n) std::ranges::copy(all.part(n), rest.data() + n * all.size);
  const Index run = (nest.extent[0] - 1) * nest.stride[0], step = nest.stride[0];
  for_each_run(nest, [&](Index first) {
    for (Index element = first; element <= first + run; element += step) {
      const auto at = static_cast<std::size_t>(block_->first - all.first) + static_cast<std::size_t>(element) * width,
                 part = all.count > 1 ? at / all.step : 0;
      std::byte* const origin = rest.data() + part * all.size;
      Filling{block_->fence, origin}.fill(origin + (at - part * all.step), width);
    }
  });
  for (std::size_t n = 0; n < all.count; ++n)
    if (!stand({rest.data() + n * all.size, all.size}, 0, all.size)) return Damage::gap;
  return Damage::none;
}

std::uint64_t fence_word(std::uint64_t key) noexcept {
  std::uint64_t word = 0;
  for (int lane = 0; lane < 4; ++lane, key /= 14) word = word << 16 | (0x7FF1 + key % 14);
  return word;
}

namespace {

Tensor filled(Tensor to, const attest_tensor& from) {
  std::array<Index, 4> n{1, 1, 1, 1};
  std::copy_n(from.shape, from.ndim, n.begin());
  for (Index i = 0; i < n[0]; ++i)
    for (Index j = 0; j < n[1]; ++j)
      for (Index k = 0; k < n[2]; ++k)
        for (Index l = 0; l < n[3]; ++l) to.set(i, j, k, l, load(from, i, j, k, l));
  return to;
}

}  // namespace

Tensor copied_as_it_lies(const attest_tensor& from) {
  if (!attest_present(&from)) return {};
  const auto axes = static_cast<std::size_t>(from.ndim);
  return filled(Tensor(dtype_of(from.dtype).value(), std::span(from.shape, axes), std::span(from.strides, axes)), from);
}

Tensor copied_packed(const attest_tensor& from) {
  if (!attest_present(&from)) return {};
  return filled(Tensor(dtype_of(from.dtype).value(), std::span(from.shape, static_cast<std::size_t>(from.ndim))), from);
}

}  // namespace attest

#pragma once
// A subject that takes only a part of all calls, and holds every call it gets against that part: written from
// docs/plugin.md alone, apart from what attest decides by.
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/supports.hpp"
#include "fake_subject.hpp"
#include "subjects/describe.hpp"

namespace attest::engine::test {

// `supports` of docs/plugin.md, as the author of a kernel would keep it.
struct Demands {
  struct Range {
    std::int64_t min = 1, max = -1, multiple = 1;  // max < 0: no limit
    [[nodiscard]] bool holds(std::int64_t n) const { return n >= min && (max < 0 || n <= max) && n % multiple == 0; }
  };
  std::set<std::string> dtypes, bias_dtypes;
  bool causal, gqa, bias, keep, kv_lengths, window, softcap, lse, far, top_left, bottom_right, dv_is_d;
  std::string scale, strides;
  std::int64_t alignment;
  std::array<Range, 7> dims;
  static constexpr std::array<const char*, 7> dim_names{"b", "hq", "hkv", "lq", "lk", "d", "dv"};

  static Demands draw(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint64_t n) { return random() % n; };
    const auto most = [&] { return below(4) != 0; };
    const auto some_of = [&](std::vector<std::string> names) {
      std::set<std::string> some;
      for (const std::string& name : names)
        if (below(2)) some.insert(name);
      if (some.empty()) some.insert(names[below(names.size())]);
      return some;
    };
    Demands d{};
    d.dtypes = some_of({"f16", "bf16", "f32"});
    d.bias_dtypes = some_of({"same", "f32", "f16", "bf16", "f64"});
    for (bool Demands::*flag :
         {&Demands::causal, &Demands::gqa, &Demands::bias, &Demands::keep, &Demands::kv_lengths, &Demands::window,
          &Demands::softcap, &Demands::lse, &Demands::far, &Demands::top_left, &Demands::bottom_right})
      d.*flag = most();
    d.dv_is_d = below(3) == 0;
    d.scale = std::array{"any", "positive", "default"}[below(3)];
    d.strides = std::array{"any", "any", "last_dim_contiguous", "contiguous"}[below(4)];
    d.alignment = below(2) ? 1 : std::int64_t{1} << below(9);
    for (Range& range : d.dims) {
      if (below(2)) continue;
      range.multiple = std::array{1, 1, 2, 3, 4, 8, 16}[below(7)];
      range.min = std::array<std::int64_t, 4>{0, 1, 2, 5}[below(4)];
      if (below(2)) range.max = std::max(range.min, range.multiple) + static_cast<std::int64_t>(below(70));
    }
    return d;
  }

  [[nodiscard]] std::string describe() const {
    const auto list = [](const auto& names) { return fmt::format("[\"{}\"]", fmt::join(names, "\",\"")); };
    std::vector<std::string> align, sizes;
    if (top_left) align.emplace_back("top_left");
    if (bottom_right) align.emplace_back("bottom_right");
    for (std::size_t i = 0; i < dims.size(); ++i)
      sizes.push_back(fmt::format("\"{}\":[{},{},{}]", dim_names[i], dims[i].min,
                                  dims[i].max < 0 ? "null" : std::to_string(dims[i].max), dims[i].multiple));
    if (dv_is_d) sizes.back() = "\"dv\":\"=d\"";
    return fmt::format(
        R"({{"ops":["attention"],"dtypes":{},"supports":{{"causal":{},"gqa":{},"bias":{},"keep":{},"kv_lengths":{},)"
        R"("window":{},"softcap":{},"lse":{},"far":{},"align":{},"bias_dtypes":{},"scale":"{}","strides":"{}","alignment":{},)"
        R"("dims":{{{}}}}}}})",
        list(dtypes), causal, gqa, bias, keep, kv_lengths, window, softcap, lse, far,
        align.empty() ? std::string("[]") : list(align), list(bias_dtypes), scale, strides, alignment,
        fmt::join(sizes, ","));
  }

  // The objection to a call; empty if it is one that was offered.
  [[nodiscard]] std::string objection(const attest_attention& c) const {
    const auto type = [](const attest_tensor& t) -> std::string {
      return t.dtype.code == ATTEST_BFLOAT ? "bf16" : fmt::format("f{}", t.dtype.bits);
    };
    if (!dtypes.contains(type(c.q))) return "dtype";
    const std::int64_t sizes[] = {c.q.shape[0], c.q.shape[1], c.k.shape[1], c.q.shape[2],
                                  c.k.shape[2], c.q.shape[3], c.v.shape[3]};
    for (std::size_t i = 0; i < dims.size(); ++i)
      if (!(i == 6 && dv_is_d) && !dims[i].holds(sizes[i])) return dim_names[i];
    if (dv_is_d && c.v.shape[3] != c.q.shape[3]) return "dv is not d";
    if (!gqa && c.q.shape[1] != c.k.shape[1]) return "gqa";
    if (c.causal && !causal) return "causal";
    const bool windowed = c.window_left >= 0 || c.window_right >= 0;
    if (windowed && !window) return "window";
    if ((c.causal || windowed) && !(c.align == ATTEST_TOP_LEFT ? top_left : bottom_right)) return "align";
    if (c.keep.ndim != 0 && !keep) return "keep";
    if (c.kv_lengths.ndim != 0 && !kv_lengths) return "kv_lengths";
    if (c.softcap != 0 && !softcap) return "softcap";
    if (c.lse.ndim != 0 && !lse) return "lse";
    if (c.bias.ndim != 0) {
      if (!bias) return "bias";
      const bool as_q = type(c.bias) == type(c.q) && bias_dtypes.contains("same");
      if (!as_q && !bias_dtypes.contains(type(c.bias))) return "bias dtype";
    }
    const bool is_default = (c.flags & ATTEST_SCALE_IS_DEFAULT) != 0;
    if (scale == "default" && !is_default) return "scale";
    if (scale == "positive" && !(c.scale > 0)) return "scale sign";
    const std::pair<const char*, const attest_tensor*> tensors[] = {
        {"q", &c.q}, {"k", &c.k}, {"v", &c.v}, {"out", &c.out}, {"bias", &c.bias}, {"keep", &c.keep}};
    for (const auto& [name, t] : tensors) {
      if (t->ndim == 0 || t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3] == 0) continue;
      std::int64_t last = 0;
      for (int axis = 0; axis < 4; ++axis) last += (t->shape[axis] - 1) * t->strides[axis];
      if (!far && last > std::numeric_limits<std::int32_t>::max()) return fmt::format("offsets of {}", name);
      if (strides != "any" && t->strides[3] != 1) return fmt::format("last stride of {}", name);
      std::int64_t dense = 1;
      for (int axis = 3; axis >= 0; --axis) {
        if (strides == "contiguous" && t->strides[axis] != dense) return fmt::format("strides of {}", name);
        dense *= t->shape[axis];
      }
      if (t == &c.bias || t == &c.keep) continue;
      const std::int64_t bytes = t->dtype.bits / 8;
      for (int axis = 0; axis < 3; ++axis)
        if (t->strides[axis] * bytes % alignment != 0) return fmt::format("rows of {}", name);
      if ((reinterpret_cast<std::uintptr_t>(t->data) + t->byte_offset) % static_cast<std::uintptr_t>(alignment) != 0)
        return fmt::format("address of {}", name);
    }
    return {};
  }
};

// The calls that reached such subjects, in all threads.
struct Asked {
  std::mutex counting;
  std::int64_t calls = 0, outside = 0;
  std::string first_outside;
};

// `inner` behind demands of its own, counted into `asked`. Computes what `inner` computes.
inline std::unique_ptr<FakeFactory> demanding(const SubjectFactory& inner, const Demands& demands, Asked& asked) {
  const SubjectInfo offered = subject_info({"demanding", "1", demands.describe(), {}}, "demanding");
  SubjectInfo info = inner.info();
  info.supports = offered.supports;
  info.dtypes = offered.dtypes;
  info.policies.clear();
  info.arithmetic.clear();
  for (const Format dtype : offered.dtypes) {
    const attest::Contract contract = inner.info().contract(dtype);
    info.policies.push_back(contract.policy);
    info.arithmetic.push_back(contract.arithmetic);
  }
  return std::make_unique<FakeFactory>(std::move(info), [&inner, demands, &asked]() -> Answer {
    const std::shared_ptr<Subject> subject = inner.open();
    return [subject, demands, &asked](const attest_attention& call) {
      {
        const std::string why = demands.objection(call);
        const std::lock_guard hold(asked.counting);
        ++asked.calls;
        if (!why.empty()) {
          ++asked.outside;
          if (asked.first_outside.empty()) asked.first_outside = why + ", of " + demands.describe();
        }
      }
      return subject->run_one(call);
    };
  });
}

}  // namespace attest::engine::test

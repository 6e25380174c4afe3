#pragma once
#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/npz.hpp"
#include "engine/judge.hpp"
#include "ops/op.hpp"

namespace attest {

// Saves a tensor under its name, as `type`: f16, f32, f64, i32 or bool.
inline NamedArray array_of(const ops::NamedTensor& named, NamedArray::Type type) {
  NamedArray array;
  array.name = named.name;
  array.type = type;
  array.shape.assign(named.tensor->shape().begin(), named.tensor->shape().end());
  std::array<Index, 4> n{1, 1, 1, 1};
  std::ranges::copy(array.shape, n.begin());
  const auto put = [&](auto x) {
    const auto* const from = reinterpret_cast<const std::byte*>(&x);
    array.bytes.insert(array.bytes.end(), from, from + sizeof x);
  };
  for (Index i = 0; i < n[0]; ++i)
    for (Index j = 0; j < n[1]; ++j)
      for (Index k = 0; k < n[2]; ++k)
        for (Index l = 0; l < n[3]; ++l) {
          const double x = named.tensor->at(i, j, k, l);
          switch (type) {
            case NamedArray::Type::f16:
              put(encode_f16(x));
              break;
            case NamedArray::Type::f64:
              put(x);
              break;
            case NamedArray::Type::i32:
              put(static_cast<std::int32_t>(x));
              break;
            case NamedArray::Type::boolean:
              put(static_cast<std::uint8_t>(x != 0));
              break;
            default:
              put(static_cast<float>(x));
          }
        }
  return array;
}

// A run that was saved, and the words that say what it was.
struct Saved {
  const ops::Op* op = nullptr;
  std::vector<NamedArray> inputs, outputs;
  std::string policy;
  std::map<std::string, std::string, std::less<>> words;

  [[nodiscard]] ops::SavedCall call() const {
    const ops::SavedWords said{[this](std::string_view key) {
                                 const auto found = words.find(key);
                                 return found == words.end() ? std::nullopt : std::optional(found->second);
                               },
                               [this](std::string_view key) { return words.contains(key); },
                               [](std::string_view key) { return "--" + std::string(key); },
                               [this](std::string_view key, std::uint64_t, std::uint64_t) {
                                 const auto found = words.find(key);
                                 return found == words.end() ? std::nullopt
                                                             : std::optional<std::uint64_t>(std::stoull(found->second));
                               }};
    return op->saved_call(inputs, outputs, op->policy_from_text(policy), said);
  }
  [[nodiscard]] engine::Judgement judged(const ops::Contract& contract) const {
    return engine::judge(*call().exchange, contract);
  }
  // The message about a run that is no call of the operation; "(taken)" for one that is.
  [[nodiscard]] std::string refusal() const {
    try {
      (void)call();
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::usage);
      return error.what();
    }
    return "(taken)";
  }
};

}  // namespace attest

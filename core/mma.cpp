#include "core/mma.hpp"
#include "core/number_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace attest {
namespace {

using nlohmann::json;

constexpr auto result_names = std::to_array<std::string_view>({"f32", "e8m13", "f16"});
constexpr std::string_view name(MmaResult result) { return result_names[static_cast<std::size_t>(result)]; }

constexpr std::string_view only_words = "/only";  // behind the text of one

// P. Xie et al., "Bit-Accurate Modeling of GPU Matrix Multiply-Accumulate Units", arXiv 2511.10909, table 4. The blocks
// are those of the narrowest instruction: m16n8k8 has 8 products of f16 or bf16, m16n8k4 has 4 of tf32.
struct Generation {
  std::string_view name;
  std::int64_t block, block_of_tf32;
  int frac;
  MmaResult out;
};
constexpr auto generations = std::to_array<Generation>({
    {"volta", 4, 4, 23, MmaResult::f32},
    {"turing", 8, 8, 24, MmaResult::f32},
    {"ampere", 8, 4, 24, MmaResult::f32},
    {"ada", 8, 4, 24, MmaResult::f32},
    {"hopper", 8, 4, 25, MmaResult::f32},
    {"blackwell", 8, 4, 25, MmaResult::f32},
    {"cdna3", 4, 4, 24, MmaResult::f32},
    {"ada-fp8", 16, 16, 13, MmaResult::e8m13},
    {"hopper-fp8", 32, 32, 13, MmaResult::e8m13},
});

std::string allowed() {
  std::string names;
  for (const Generation& generation : generations) names += fmt::format("{}, ", generation.name);
  return names + R"("BLOCK/FRAC/OUT" or {"block": 8, "frac": 24, "out": "f32", "only": false})";
}

[[noreturn]] void reject(std::string_view key, const std::string& what) {
  throw usage_error(fmt::format("contract: mma{} must be {}", key, what));
}

std::int64_t read_count(const json& value, std::string_view key, std::int64_t most) {
  if (!value.is_number_integer() || !(value.get<double>() >= 1 && value.get<double>() <= static_cast<double>(most)))
    reject(key, fmt::format("an integer in 1..{}", most));
  return value.get<std::int64_t>();
}

json number_of(std::string_view text) {
  const auto number = parse_whole<std::int64_t>(text);
  return number ? json(*number) : json(std::string(text));
}

// "8/24/f32" or "8/24/f32/only" as an object; nothing for another text.
std::optional<json> split(std::string_view text) {
  const bool ends = text.ends_with(only_words);
  if (ends) text.remove_suffix(only_words.size());
  const auto first = text.find('/'), second = text.find('/', first + 1);
  if (first == text.npos || second == text.npos) return std::nullopt;
  return json{{"block", number_of(text.substr(0, first))},
              {"frac", number_of(text.substr(first + 1, second - first - 1))},
              {"out", std::string(text.substr(second + 1))},
              {"only", ends}};
}

}  // namespace

bool adds_blocks_in(const Mma& mma, Format accumulator) noexcept {
  const Format out = format_of(mma.out);
  return precision(accumulator) <= precision(out) && min_exponent(accumulator) >= min_exponent(out);
}

std::optional<Mma> mma_of_generation(std::string_view name, const Policy& policy) {
  const auto* found = std::ranges::find(generations, name, &Generation::name);
  if (found == generations.end()) return std::nullopt;
  const bool wide = precision(policy[Stage::storage]) > precision(Format::f16);
  return Mma{wide ? found->block_of_tf32 : found->block, found->frac, found->out, false};
}

bool is_mma_object(const json& value) {
  return value.is_object() && (value.contains("block") || value.contains("frac") || value.contains("out"));
}

Mma mma_from_json(const json& value, const Policy& policy) {
  json object = value;
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (const auto mma = mma_of_generation(text, policy)) return *mma;
    if (const auto parts = split(text)) object = *parts;
  }
  if (!object.is_object()) reject("", "one of " + allowed());
  for (const auto& [key, part] : object.items())
    if (key != "block" && key != "frac" && key != "out" && key != "only")
      reject("", fmt::format("without '{}': {}", key, allowed()));
  for (const char* key : {"block", "frac"})
    if (!object.contains(key)) reject("", fmt::format("given with its '{}': {}", key, allowed()));
  Mma mma;
  mma.block = read_count(object["block"], ".block", largest_mma_block);
  mma.frac = static_cast<int>(read_count(object["frac"], ".frac", largest_mma_frac));
  if (const auto out = object.find("out"); out != object.end()) {
    const auto* found =
        out->is_string() ? std::ranges::find(result_names, out->get_ref<const std::string&>()) : result_names.end();
    if (found == result_names.end()) reject(".out", fmt::format("one of {}", fmt::join(result_names, ", ")));
    mma.out = static_cast<MmaResult>(found - result_names.begin());
  }
  if (const auto only = object.find("only"); only != object.end()) {
    if (!only->is_boolean()) reject(".only", "true or false");
    mma.only = only->get<bool>();
  }
  return mma;
}

nlohmann::ordered_json to_json(const Mma& mma) {
  nlohmann::ordered_json object{{"block", mma.block}, {"frac", mma.frac}, {"out", name(mma.out)}};
  if (mma.only) object["only"] = true;
  return object;
}

std::string to_text(const Mma& mma) {
  return fmt::format("{}/{}/{}{}", mma.block, mma.frac, name(mma.out), mma.only ? only_words : "");
}

double units_of_mma(const Mma& mma, Format accumulator) noexcept {
  if (!adds_blocks_in(mma, accumulator)) return 1;
  // The product and the running sum may lose bits in the alignment, and the new sum as it is rounded, here and to the
  // accumulator.
  const double cut = std::ldexp(1.0, -mma.frac), rounded = std::ldexp(1.0, -fraction_bits(mma.out));
  return 1 + (2 * cut + std::max(cut, rounded)) / unit_roundoff(accumulator);
}

}  // namespace attest

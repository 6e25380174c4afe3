#include "generators/models.hpp"

#include <algorithm>
#include <string>

#include "core/error.hpp"

namespace attest {
namespace {

// Columns: model, d, dv, heads, kv_heads, queries, keys. tests/generators/models_test.cpp holds docs/sizes.md against
// it.
constexpr auto heads_in_use = std::to_array<ModelHeads>({
    {"Llama 2 7B", 128, 128, 32, 32, 0, 0},
    {"Llama 3.1 8B", 128, 128, 32, 8, 0, 0},
    {"Llama 3.1 70B", 128, 128, 64, 8, 0, 0},
    {"Llama 3.1 405B", 128, 128, 128, 8, 0, 0},
    {"Llama 3.2 1B", 64, 64, 32, 8, 0, 0},
    {"Mistral 7B", 128, 128, 32, 8, 0, 0},
    {"Qwen2.5 0.5B", 64, 64, 14, 2, 0, 0},
    {"Qwen2.5 7B", 128, 128, 28, 4, 0, 0},
    {"Qwen3 0.6B", 128, 128, 16, 8, 0, 0},
    {"Qwen3 32B", 128, 128, 64, 8, 0, 0},
    {"Gemma 2B", 256, 256, 8, 1, 0, 0},
    {"Gemma 2 9B", 256, 256, 16, 8, 0, 0},
    {"Gemma 3 1B", 256, 256, 4, 1, 0, 0},
    {"Gemma 3 27B", 128, 128, 32, 16, 0, 0},
    {"Phi-2", 80, 80, 32, 32, 0, 0},
    {"Phi-3 mini", 96, 96, 32, 32, 0, 0},
    {"DeepSeek-V3 prefill", 192, 128, 128, 128, 0, 0},
    {"DeepSeek-V3 decode", 576, 512, 128, 1, 0, 0},
    {"GPT-OSS 20B", 64, 64, 64, 8, 0, 0},
    {"GPT-2", 64, 64, 12, 12, 0, 0},
    {"GPT-NeoX 20B", 96, 96, 64, 64, 0, 0},
    {"Falcon 7B", 64, 64, 71, 1, 0, 0},
    {"StarCoder2 15B", 128, 128, 48, 4, 0, 0},
    {"BERT base", 64, 64, 12, 12, 512, 512},
    {"MiniLM L6", 32, 32, 12, 12, 512, 512},
    {"Swin-T window", 32, 32, 3, 3, 49, 49},
    {"ModernBERT base", 64, 64, 12, 12, 0, 0},
    {"ViT-B/16", 64, 64, 12, 12, 197, 197},
    {"CLIP ViT-L/14", 64, 64, 16, 16, 257, 257},
    {"CLIP text L/14", 64, 64, 12, 12, 77, 77},
    {"ViT-H/14", 80, 80, 16, 16, 257, 257},
    {"EVA02-CLIP-E/14", 112, 112, 16, 16, 257, 257},
    {"SAM ViT-H window", 80, 80, 16, 16, 196, 196},
    {"SAM ViT-H", 80, 80, 16, 16, 4096, 4096},
    {"Whisper small encoder", 64, 64, 12, 12, 1500, 1500},
    {"Whisper large cross", 64, 64, 20, 20, 0, 1500},
    {"T5 large", 64, 64, 16, 16, 512, 512},
    {"T5 11B", 128, 128, 128, 128, 512, 512},
    {"SDXL 64x64 self", 64, 64, 10, 10, 4096, 4096},
    {"SDXL 64x64 cross", 64, 64, 10, 10, 4096, 77},
    {"SDXL 32x32 self", 64, 64, 20, 20, 1024, 1024},
    {"SDXL 32x32 cross", 64, 64, 20, 20, 1024, 77},
    {"SDXL VAE", 512, 512, 1, 1, 16384, 16384},
    {"SD 1.5 16x16 self", 160, 160, 8, 8, 256, 256},
    {"SD 1.5 16x16 cross", 160, 160, 8, 8, 256, 77},
    {"SD 1.5 32x32 cross", 80, 80, 8, 8, 1024, 77},
    {"FLUX.1", 128, 128, 24, 24, 4608, 4608},
});

constexpr auto widths = std::to_array<Index>({768,  896,  1024, 1152, 1280, 1536, 1600, 2048, 2304, 2560,  2880, 3072,
                                              3584, 4096, 4544, 4608, 5120, 5376, 6144, 7168, 8192, 14336, 16384});
constexpr auto prefills =
    std::to_array<Index>({64, 77, 128, 196, 197, 256, 257, 448, 512, 577, 729, 1024, 1500, 2048, 4096, 5184});
constexpr auto paged = std::to_array<Index>({16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16'384, 32'768});

}  // namespace

SizeRegime sizes_named(std::string_view name) {
  const auto found = std::ranges::find(sizes_names, name);
  if (found == sizes_names.end())
    throw usage_error("'" + std::string(name) + "' is no choice of sizes: give small, models or both");
  return static_cast<SizeRegime>(found - sizes_names.begin());
}

void refuse_models() { throw usage_error("--sizes models: the subject takes no shape of a model"); }

std::span<const ModelHeads> model_heads() noexcept { return heads_in_use; }
std::span<const Index> model_widths() noexcept { return widths; }
std::span<const Index> prefill_lengths() noexcept { return prefills; }
std::span<const Index> cached_lengths() noexcept { return std::span(paged).subspan(5); }
std::span<const Index> paged_lengths() noexcept { return paged; }

Index draw_size(Source& source, std::span<const Index> sizes, Index most, Index least) {
  const auto end = std::max(std::ranges::upper_bound(sizes, most), std::next(sizes.begin()));
  const auto begin = std::min(std::ranges::lower_bound(sizes, least), std::prev(end));
  const Index size = source.pick(std::span(begin, end));
  if (!source.chance(1, 4)) return size;
  return std::max<Index>(size + (source.chance(1, 2) ? 1 : -1), 1);
}

Index draw_model_work(Source& source, Index first, int doublings) {
  while (doublings > 0 && source.chance(1, 3)) {
    first *= 2;
    --doublings;
  }
  return first;
}

}  // namespace attest

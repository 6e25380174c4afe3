#include "ops/probe/questions.hpp"

#include <algorithm>

namespace attest::ops::probing {

Read element(const Place& place, std::string_view output) {
  return [place, name = std::string(output)](const Elements& outputs) { return outputs(name, place); };
}

std::vector<Against> narrower_than_f32(Format dtype, std::span<const Format> formats) {
  const Against eight{{Format::bf16}, 8}, eleven{{Format::f16, Format::tf32}, 11}, range{{Format::f16}, 0};
  std::vector<Against> all;
  if (dtype == Format::f16)
    all = {eight, eleven};
  else if (dtype == Format::f64)
    all = {eight, range, eleven, {{Format::f32}, 24}};
  else
    all = {eight, range, eleven};
  for (Against& against : all)
    std::erase_if(against.formats, [&](Format f) { return std::ranges::find(formats, f) == formats.end(); });
  std::erase_if(all, [](const Against& against) { return against.formats.empty(); });
  return all;
}
std::vector<Against> narrower_than_storage(Format dtype, std::span<const Format> formats) {
  std::vector<Against> all = narrower_than_f32(dtype, formats);
  std::erase_if(all, [&](const Against& a) { return a.bits >= precision(dtype); });
  return all;
}

std::vector<std::pair<Index, Index>> pairs(Index n) {
  std::vector<std::pair<Index, Index>> all{{0, n - 1}, {0, 1},     {0, n / 2},         {n / 2 - 1, n / 2}, {n - 1, 0},
                                           {1, n - 2}, {5, n - 7}, {n / 4, 3 * n / 4}, {n / 2 + 3, n / 4}, {7, 8},
                                           {2, 9},     {11, 4},    {n - 1, 1},         {2, n / 2 + 1}};
  std::erase_if(all, [&](const auto& pair) {
    return pair.first == pair.second || pair.first < 0 || pair.second < 0 || pair.first >= n || pair.second >= n;
  });
  return all;
}

void ask_further(std::vector<StageQuestions>& all, std::vector<StageQuestions> again) {
  for (std::size_t part = 0; part < all.size(); ++part)
    for (Question& other : again[part].questions) {
      const auto same = std::ranges::find_if(all[part].questions, [&](const Question& question) {
        return question.excludes == other.excludes && question.bits == other.bits && question.vetoes == other.vetoes;
      });
      if (same == all[part].questions.end() || same->shots.front().problem == other.shots.front().problem) continue;
      for (Shot& shot : other.shots) {
        shot.further = true;
        same->shots.push_back(std::move(shot));
      }
    }
}

}  // namespace attest::ops::probing

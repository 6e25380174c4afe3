#include "cli/shard_option.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "core/error.hpp"
#include "core/number_text.hpp"

namespace attest::cli {
namespace {

// A whole number of at most nine digits.
std::optional<std::uint64_t> whole(std::string_view digits) {
  return digits.size() > 9 ? std::nullopt : parse_whole<std::uint64_t>(digits);
}

std::optional<std::uint64_t> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  if (const auto number = whole(text)) return number;
  throw usage_error(fmt::format("{}={} is no number: give --shard I/N", variable, text));
}

// The job's place among others, from 0; `count` is their number where the scheduler says it.
struct Place {
  std::string said;  // "SLURM_ARRAY_TASK_ID=3"
  std::uint64_t index = 0;
  std::optional<std::uint64_t> count;
};

std::optional<Place> of_slurm() {
  const auto id = number_in("SLURM_ARRAY_TASK_ID"), count = number_in("SLURM_ARRAY_TASK_COUNT");
  if (!id || !count) return std::nullopt;
  const std::uint64_t least = number_in("SLURM_ARRAY_TASK_MIN").value_or(1),
                      step = number_in("SLURM_ARRAY_TASK_STEP").value_or(1);
  const auto most = number_in("SLURM_ARRAY_TASK_MAX");
  const bool even =
      step >= 1 && *id >= least && (*id - least) % step == 0 && (!most || (*most - least) / step + 1 == *count);
  if (!even)
    throw usage_error("the tasks of this Slurm array are not evenly apart, as in --array=1-8: give --shard I/N");
  return Place{fmt::format("SLURM_ARRAY_TASK_ID={}", *id), (*id - least) / step, count};
}

std::optional<Place> of_scheduler() {
  if (auto slurm = of_slurm()) return slurm;
  if (const auto index = number_in("JOB_COMPLETION_INDEX"))
    return Place{fmt::format("JOB_COMPLETION_INDEX={}", *index), *index, {}};
  for (const auto& [rank, size] : {std::pair{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"}})
    if (const auto index = number_in(rank)) return Place{fmt::format("{}={}", rank, *index), *index, number_in(size)};
  return std::nullopt;
}

}  // namespace

engine::Shard read_shard(const std::optional<std::string>& text, const std::string& origin) {
  std::optional<std::uint64_t> count;
  if (text) {
    if (const std::size_t slash = text->find('/'); slash != std::string::npos) {
      const auto index = whole(std::string_view(*text).substr(0, slash)),
                 of = whole(std::string_view(*text).substr(slash + 1));
      if (index && of && *index >= 1 && *index <= *of) return {*index, *of};
      throw usage_error(fmt::format("{} {}: it must be I/N with I in 1..N", origin, *text));
    }
    count = whole(*text);
    if (!count || *count == 0)
      throw usage_error(fmt::format("{} {}: it must be I/N with I in 1..N, or N under a scheduler", origin, *text));
  }
  const std::optional<Place> place = of_scheduler();
  if (!place) {
    if (!count) return {};
    throw usage_error(
        fmt::format("{} {} says which number of shards there are, and no scheduler which one this is "
                    "(SLURM_ARRAY_TASK_ID, JOB_COMPLETION_INDEX, "
                    "OMPI_COMM_WORLD_RANK, PMI_RANK): give I/N",
                    origin, *count));
  }
  if (!count && !place->count) return {};  // nobody says the count
  if (count && place->count && *count != *place->count)
    throw usage_error(fmt::format("{} {}, and {} is of {}: give I/N", origin, *count, place->said, *place->count));
  const std::uint64_t of = count ? *count : *place->count;
  if (place->index >= of) throw usage_error(fmt::format("{} is not below {}, the number of shards", place->said, of));
  return {place->index + 1, of};
}

}  // namespace attest::cli

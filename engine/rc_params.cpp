#include "engine/rc_params.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/error.hpp"
#include "core/number_text.hpp"

namespace attest::engine {
namespace {

// The keys of RapidCheck's documentation (doc/configuration.md).
constexpr auto numbers = std::to_array<std::string_view>({"seed", "max_success", "max_size", "max_discard_ratio"});
constexpr auto flags = std::to_array<std::string_view>({"noshrink", "verbose_progress", "verbose_shrinking"});

void check_item(std::string_view item) {
  const std::size_t equals = item.find('=');
  const std::string_view key = item.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? "" : item.substr(equals + 1);
  const bool number = std::ranges::find(numbers, key) != numbers.end();
  const bool flag = std::ranges::find(flags, key) != flags.end();
  if (!number && !flag && key != "reproduce")
    throw usage_error(fmt::format("RC_PARAMS: there is no key '{}': use {}, {} or reproduce", key,
                                  fmt::join(numbers, ", "), fmt::join(flags, ", ")));
  if (number && !parse_whole<std::uint64_t>(value))
    throw usage_error(fmt::format("RC_PARAMS: {} must be a whole number", key));
  if (flag && value != "0" && value != "1") throw usage_error(fmt::format("RC_PARAMS: {} must be 0 or 1", key));
  if (key == "reproduce" && value.empty()) throw usage_error("RC_PARAMS: reproduce must not be empty");
}

}  // namespace

void check_rc_params(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) check_item(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace attest::engine

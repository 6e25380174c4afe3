#include "cli/saved_call_option.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>

#include "core/error.hpp"

namespace attest::cli {
namespace {

bool reads(const ops::Op& op, std::string_view key) {
  return std::ranges::find(op.saved_words(), key, &ops::SavedWord::key) != op.saved_words().end();
}

// The heading of the options that one operation alone reads.
std::string_view heading(const ops::Op& op) {
  static std::map<std::string_view, std::string> kept;  // an option's group is a view
  const std::string_view how = &op == ops::all_ops().front() ? "Saved call of {0}" : "Saved call of {0} (--op {0})";
  return kept.try_emplace(op.name(), fmt::format(fmt::runtime(how), op.name())).first->second;
}

}  // namespace

std::vector<Option> saved_call_options() {
  static std::deque<std::string> kept;  // an option's help is a view
  std::vector<Option> all;
  for (const ops::Op* op : ops::all_ops())
    for (const ops::SavedWord& word : op->saved_words()) {
      const auto found = std::ranges::find(all, word.key, &Option::name);
      if (found == all.end()) {
        all.push_back({word.key, word.value, word.help, {}, heading(*op)});
        continue;
      }
      found->group = "Saved call";
      if (found->help.find(word.help) == std::string_view::npos)
        found->help = kept.emplace_back(fmt::format("{}; of {}: {}", found->help, op->name(), word.help));
    }
  return all;
}

const ops::Op& saved_op(const Settings& settings) {
  const ops::Op* op = ops::all_ops().front();
  if (const auto name = settings.text("op")) {
    op = ops::find_op(*name);
    if (op == nullptr || op->saved_words().empty()) {
      std::vector<std::string_view> names;
      for (const ops::Op* each : ops::all_ops())
        if (!each->saved_words().empty()) names.push_back(each->name());
      throw usage_error(
          fmt::format("{} {}: saved calls are judged of {}", settings.origin("op"), *name, fmt::join(names, " and ")));
    }
  }
  for (const ops::Op* other : ops::all_ops())
    for (const ops::SavedWord& word : other->saved_words())
      if (!reads(*op, word.key) && settings.text(word.key) && settings.origin(word.key).starts_with("--"))
        throw usage_error(fmt::format("{} is of {}, and the saved call is one of {}: leave it out, or give --op {}",
                                      settings.origin(word.key), other->name(), op->name(), other->name()));
  return *op;
}

ops::SavedWords saved_words(const Settings& settings) {
  return {[&](std::string_view key) { return settings.text(key); },
          [&](std::string_view key) { return settings.flag(key); },
          [&](std::string_view key) { return settings.origin(key); },
          [&](std::string_view key, std::uint64_t lo, std::uint64_t hi) { return settings.integer(key, lo, hi); }};
}

std::optional<Index> count_of(const Settings& settings, std::string_view key, std::uint64_t lo) {
  const auto n = settings.integer(key, lo, std::uint64_t{1} << 30);
  return n ? std::optional(static_cast<Index>(*n)) : std::nullopt;
}

}  // namespace attest::cli

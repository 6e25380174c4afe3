// ATTEST_PARAMS, and attest.toml behind a line of its own that holds ATTEST_PARAMS.
#include "cli/settings.hpp"

#include <CLI/CLI.hpp>

#include "fuzz/target.hpp"

using namespace attest;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::as_text(data, size);
  const std::size_t newline = std::min(text.find('\n'), text.size());
  const std::string_view params = text.substr(0, newline), toml = text.substr(std::min(newline + 1, text.size()));
  CLI::App app;
  cli::Settings settings;
  settings.declare(
      app, {{"policy", "P", ""}, {"seed", "N", ""}, {"cases", "N", ""}, {"time", "T", ""}, {"in-process", "", ""}});
  fuzz::accepts([&] { settings.complete("fuzz", params, toml); });
  fuzz::accepts([&] { return settings.integer("seed", 0, UINT64_MAX); });
  fuzz::accepts([&] { return settings.integer("cases", 1, 1000); });
  fuzz::accepts([&] { return settings.seconds("time"); });
  fuzz::accepts([&] { return settings.flag("in-process"); });
  fuzz::accepts([&] { return settings.text("policy"); });
  return 0;
}

#include "engine/compare_saved.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "engine/check.hpp"
#include "properties/trial.hpp"

namespace attest::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view inputs_mark = ".inputs", outputs_mark = ".outputs";

bool has_mark(const fs::path& file, std::string_view mark) { return file.stem().native().ends_with(mark); }

Verdict failure_of(const CallResult& result, const char* whose) {
  switch (result.status) {
    case CallStatus::unsupported:
      return Verdict::skip(std::string(unsupported_prefix) + result.message);
    case CallStatus::crash:
      return {VerdictKind::crash, whose + result.message, {}, {}};
    case CallStatus::timeout:
      return {VerdictKind::timeout, whose + result.message, {}, {}};
    default:
      return {VerdictKind::error, whose + result.message, {}, {}};
  }
}

}  // namespace

std::vector<SavedFiles> saved_calls_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator walk(folder, error), end; !error && walk != end; walk.increment(error))
    if (walk->is_regular_file(error)) files.push_back(walk->path());
  if (error) throw usage_error(fmt::format("{} cannot be read: {}", folder.string(), error.message()));
  std::ranges::sort(files);
  std::vector<SavedFiles> calls;
  for (const fs::path& file : files) {
    const fs::path extension = file.extension();
    if ((extension != ".npz" && extension != ".json") || has_mark(file, outputs_mark)) continue;
    if (has_mark(file, inputs_mark)) {
      std::string stem = file.stem().string();
      stem.resize(stem.size() - inputs_mark.size());
      const fs::path outputs = file.parent_path() / (stem + std::string(outputs_mark) + extension.string());
      if (!std::ranges::count(files, outputs))
        throw usage_error(fmt::format("{} has no {} beside it", file.string(), outputs.filename().string()));
      calls.push_back({file, outputs});
    } else if (extension == ".npz") {
      calls.push_back({file, file});
    }
  }
  if (calls.empty())
    throw usage_error(
        fmt::format("{} holds no saved call: NAME.npz with what went in and what came out, or "
                    "NAME.inputs.npz with NAME.outputs.npz",
                    folder.string()));
  return calls;
}

Verdict compare_saved(ops::Exchange& call, const Contract& saved, Subject& subject, const Contract& its,
                      bool saved_first, bool bits) {
  const auto once = [&] {
    try {
      return call.against(saved, subject, its, saved_first, bits);
    } catch (const properties::CallFailed& failed) {
      return failure_of(failed.result, saved_first ? properties::peer_prefix : properties::subject_prefix);
    } catch (const NotReserved& refused) {
      return Verdict::skip(std::string(unsupported_prefix) + refused.what());
    }
  };
  Verdict seen = once();
  if (!is_finding(seen.kind) || !subject.renew()) return seen;
  Verdict again = once();
  return is_finding(again.kind) ? std::move(again) : flaky_verdict(seen, "a fresh instance does not show it");
}

}  // namespace attest::engine

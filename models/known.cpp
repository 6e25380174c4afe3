#include "models/known.hpp"

#include <algorithm>

#include "engine/corpus.hpp"
#include "engine/file.hpp"
#include "engine/key.hpp"

namespace attest::models {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t largest_file = 1 << 20;

// "Softmax", of "weights (Softmax)".
std::string op_of(const std::string& node) {
  const std::size_t open = node.rfind(" (");
  if (open == std::string::npos || !node.ends_with(')')) return node;
  return node.substr(open + 2, node.size() - open - 3);
}

KnownFailure failure_of(const Entry& entry) {
  KnownFailure one{{}, entry.runtime, entry.key.substr(entry.key.find('/') + 1)};
  // Classes of errors hold what the model calls its nodes.
  if (!one.what.starts_with("fail/"))
    one.what = one.what.substr(0, one.what.find('/') + 1) + engine::message_class(entry.reason);
  for (const std::string& node : entry.segment) one.ops.push_back(op_of(node));
  if (one.ops.empty()) one.law = entry.law, one.digest = entry.model_digest, one.tensor = entry.tensor;
  return one;
}

KnownFailure failure_of(const engine::Entry& entry) {
  const engine::FailureKey key = engine::failure_key_of(entry);
  const std::size_t colon = entry.subject.find(':');
  return {{},
          entry.subject.substr(0, colon),
          std::string(name(key.kind)) + "/" + key.what,
          {entry.subject.substr(colon + 1)}};
}

}  // namespace

std::vector<KnownFailure> known_failures(const fs::path& corpus, const std::optional<engine::Waiver>& waiver) {
  std::vector<KnownFailure> known;
  for (const fs::path& file : engine::corpus_files({corpus})) {
    if (is_entry(engine::read_file(file, largest_file))) {
      const Entry entry = read_entry(file);
      if (entry.expect != "fail") continue;
      known.push_back(failure_of(entry));
    } else {
      const engine::Entry entry = engine::read_entry(file);
      // An operator alone does not tell which defect it is, where numbers are wrong.
      if (entry.expect != VerdictKind::fail || entry.seen == VerdictKind::fail) continue;
      known.push_back(failure_of(entry));
    }
    known.back().name = file.stem().string();
    known.back().waiver = waiver;
  }
  return known;
}

KnownAs known_as(const std::vector<KnownFailure>& known, const Entry& seen) {
  const KnownFailure wanted = failure_of(seen);
  KnownAs told;
  for (const KnownFailure& one : known) {
    if (one.runtime != wanted.runtime || one.what != wanted.what || one.ops != wanted.ops || one.law != wanted.law ||
        one.digest != wanted.digest || one.tensor != wanted.tensor)
      continue;
    if (one.waiver && std::ranges::find(told.waivers, *one.waiver) == told.waivers.end())
      told.waivers.push_back(*one.waiver);
    if (told.name.empty() && !(one.waiver && one.waiver->over)) told.name = one.name;
  }
  return told;
}

}  // namespace attest::models

#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/summary.hpp"
#include "models/entry.hpp"

namespace attest::models {

// A failure that a corpus has, as far as it tells another one (docs/graphs.md section 8).
struct KnownFailure {
  std::string name;  // its file's, without the ending: "ort-attention-1"
  std::string runtime;
  std::string what;                        // kind and class, or the words of an error: "fail/finite"
  std::vector<std::string> ops{};          // of its segment, in order; none where there is no segment
  std::string law{}, digest{}, tensor{};   // likewise its law, model and first wrong tensor, of one without a segment
  std::optional<engine::Waiver> waiver{};  // where it is waived: it tells nothing once the waiver is over
};

// The failures of models and, of what ended with an error or a death, of operators that adapters ask alone: an entry of
// the subject onnxruntime:Attention is one of a node Attention on onnxruntime. Throws Error(usage) on the first damaged
// file.
std::vector<KnownFailure> known_failures(const std::filesystem::path& corpus,
                                         const std::optional<engine::Waiver>& waiver = std::nullopt);

// The failures that tell what an entry has: the name of the first one, "" where none does, and the waivers of all, those
// that are over, too.
struct KnownAs {
  std::string name;
  std::vector<engine::Waiver> waivers;
};
KnownAs known_as(const std::vector<KnownFailure>& known, const Entry& seen);

}  // namespace attest::models

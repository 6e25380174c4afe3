#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/localise.hpp"

// A failure of a runtime on a model, kept as a file: docs/graphs.md section 8.
namespace attest::models {

inline constexpr int entry_format = 1;

struct Entry {
  // Absolute here; in a file relative to its folder. It says what to look for, and starts nothing by itself.
  std::filesystem::path model;
  std::string model_digest;                    // the digest of its bytes, as hex64 has it
  std::filesystem::path inputs;                // the owner's, that its problems are drawn around, likewise; mostly none
  std::string inputs_digest;                   // the digest of their numbers
  std::filesystem::path outputs;               // results that were saved elsewhere, in place of a runtime; mostly none
  std::string outputs_digest;                  // the digest of the file's bytes
  std::map<std::string, std::string> roles{};  // the owner's words on the meaning of inputs: "ids:2"
  std::string runtime;                         // a shipped one, or "external:NAME"
  std::filesystem::path runtime_file;          // an external one's script, likewise
  std::string version;
  Build build;
  std::string policy;  // precision as text
  std::string law;
  std::string problem;             // text
  std::vector<std::string> after;  // problems that a process must be asked before, in order; mostly none
  std::string expect = "fail";     // or "pass"
  std::string key;                 // failure_key of what was seen
  std::string reason;              // likewise
  double z = 0;
  std::string tensor, node, op;  // where it arises, if that is known
  std::vector<std::string> segment;
  std::string original;  // before shrinking
  std::uint64_t seed = 0, case_number = 0;
  std::int64_t shrink_calls = 0;
  bool minimal = false;
};

// Tells whether an entry is of results that were saved elsewhere (judged.hpp): no runtime is asked.
inline bool is_saved(const Entry& entry) noexcept { return !entry.outputs.empty(); }

// Tells whether a text is that of an entry of a model; whether it is a whole one is for read_entry.
bool is_entry(std::string_view text);
// Throws Error(usage): one sentence with the file and the reason, for one that is damaged, of a later format or
// contradictory.
Entry read_entry(const std::filesystem::path& file);
// The file of an entry, FOLDER/MODEL/LAW_KIND_CLASS_RUNTIME-HASH.json.
std::filesystem::path file_of(const Entry& entry, const std::filesystem::path& folder);
// Writes it, and beside it the segment, where there is one: .onnx, and .npz
// with its inputs, those of earlier runs (NpzFile), `got` and `expected`. Throws Error(usage) if they cannot be
// written.
std::filesystem::path write_entry(const Entry& entry, const std::optional<Place>& place,
                                  const std::filesystem::path& folder);

// An entry and its file.
struct EntryFile {
  Entry entry;
  std::filesystem::path file;
};
// Failures of one runtime on one model with the same first wrong tensor, or, where none is known, of the same key. The
// entries alone say it: nothing is asked.
using EntryDefect = std::vector<EntryFile>;
// The defects of entries that expect a failure, in the order of their first files.
std::vector<EntryDefect> grouped(std::vector<EntryFile> entries);

}  // namespace attest::models

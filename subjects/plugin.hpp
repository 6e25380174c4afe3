#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "attest/plugin.h"
#include "core/subject.hpp"
#include "subjects/describe.hpp"
#include "subjects/origin.hpp"

namespace attest {

// One subject of a plug-in as its table offers it, strings copied.
struct PluginEntry {
  std::string name, version, describe;
  const attest_subject* table = nullptr;  // lives as long as the process
};

// Loads a shared object and asks it once for its subjects. It is never unloaded.
// Throws Error(no_subject) if the file cannot be loaded, lacks attest_plugin, speaks another ABI or returns a table
// that does not hold together.
std::vector<PluginEntry> load_plugin(const std::filesystem::path& file);

// The offer of an entry; its error says if its describe is no JSON or speaks of a function that is NULL.
Offer offer_of(const PluginEntry& entry);

// A plug-in's kernel between its open and its close.
class PluginKernel {
 public:
  // Throws Error(no_subject) with the plug-in's message if its open() refuses.
  explicit PluginKernel(const PluginEntry& entry);
  ~PluginKernel();
  PluginKernel(const PluginKernel&) = delete;
  PluginKernel& operator=(const PluginKernel&) = delete;

  // Exceptions, unknown codes and messages without an end become CallStatus::error.
  CallResult run(const Call& call) const;

 private:
  PluginEntry entry_;
};

// The subjects of a plug-in in this process, for debugging: its damage to memory is attest's.
class InProcessPlugin : public FromFile {
 public:
  // `entry` has been chosen among load_plugin's of `file`, which is empty for a shipped adapter. Throws
  // Error(no_subject) if it does not open or describe itself.
  InProcessPlugin(const PluginEntry& entry, const std::string& file, const std::string& display_name);
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return info_; }
  [[nodiscard]] std::unique_ptr<Subject> open() const override;

 private:
  struct Shared;
  SubjectInfo info_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace attest

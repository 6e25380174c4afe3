#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "models/exhibit.hpp"

namespace attest::report {

// The exported part of a model's entry: the part that fails by itself where there is one, else the whole.
struct ExportedModel {
  const models::Entry& entry;
  const models::Exhibit& exhibit;
  std::filesystem::path
      file;  // the graph's file, relative to the script, which reads it if the graph is too large to spell out
};

// A script that builds the graph, runs it as the entry says and prints the worst element beside what is expected. Needs
// NumPy, onnx and the runtime; if the runtime is a script of the user's own, it prints the results of that. Throws
// Error(usage) where there are more numbers than a script should hold.
std::string python_script(const ExportedModel& exported);
// A draft for the tracker of whoever keeps the runtime, in Markdown. `system`: the machine on which it was asked.
std::string issue_text(const ExportedModel& exported, std::string_view system);

}  // namespace attest::report

#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/subject.hpp"
#include "subjects/builtin.hpp"
#include "subjects/worker.hpp"

namespace attest {

// The source of the text that names a subject. A file may come from a stranger: it names no path.
enum class Trust : std::uint8_t { command_line, file };

struct ResolveOptions {
  std::string policy;                // policy of builtin: and fault:, as text; empty: the storage format of each call
  bool in_process = false;           // a plug-in without its host process
  std::string python;                // empty: $ATTEST_PYTHON, else python3
  std::filesystem::path log_folder;  // holds the output of workers; empty: attest-UID in the folder for temporary files
  WorkerLimits limits;
  WorkerWays ways{true, true};
  std::optional<std::chrono::milliseconds> load;  // in place of limits.start, and of what shipped adapters have
};

// The subject that `text` names: builtin:NAME, fault:NAME, plugin.so[:NAME], script.py[:NAME], a shipped adapter
// PREFIX:NAME, or an executable file that speaks docs/worker.md, PATH[:NAME].
// Throws Error(usage) for a text that names none of these (with the nearest names), for a path from a file, for several
// subjects of which none is named, and for in_process where it cannot be; Error(no_subject) if what it names does not
// start.
std::unique_ptr<SubjectFactory> resolve(std::string_view text, Trust trust, const ResolveOptions& options);

// The command that starts the worker of a shipped adapter or of script.py[:NAME], and the subject to ask it for, empty
// for the only one. nullopt for a text that names neither.
struct PythonTarget {
  WorkerCommand command;
  std::string name;
};
std::optional<PythonTarget> python_target(std::string_view text, const ResolveOptions& options);

// The command that starts the worker of a runtime of models: one that attest ships (onnxruntime), or script.py, whose
// path comes from the command line alone. Throws Error(usage) for a text that names neither; Error(no_subject) if there
// is no such script.
WorkerCommand runtime_command(std::string_view text, Trust trust, const ResolveOptions& options);

// The command that makes the explicit graph of a program that torch exported (exported_program.hpp): its last word is
// the file that is written.
WorkerCommand export_command(const std::filesystem::path& program, const ResolveOptions& options);

// The Python that asks what a shipped adapter in C++ asks, in the end of an exported script; nullopt where there is
// none.
std::optional<std::filesystem::path> plugin_adapter_script(std::string_view text);

// The shipped adapters, with or without the packages they need.
std::vector<ListedSubject> adapter_subjects();

}  // namespace attest

#pragma once
#include <filesystem>
#include <string>

// The plug-ins, scripts and programs that this user has started as subjects by name. A corpus file may come from a
// stranger and starts nothing; it may name what the user has run before, and that runs again (docs/cli.md, "Which
// program an entry runs").
namespace attest {

// Notes a file in $XDG_STATE_HOME/attest/subjects (~/.local/state/attest/subjects), with its owner. Where that cannot
// be written, nothing is noted.
void note_started(const std::filesystem::path& file);

// Tells whether the file was noted under this path, links resolved, and has the owner that it had then.
bool was_started(const std::filesystem::path& file);

// The same of builds of a runtime that hand options over to it, "onnxruntime:all+PROVIDER+key=value": an option may
// name a library, which is loaded.
void note_build(const std::string& build);
bool was_build_named(const std::string& build);

}  // namespace attest

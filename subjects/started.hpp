#pragma once
#include <filesystem>

// The plug-ins, scripts and programs that this user has started as subjects by name. A corpus file may come from a stranger and
// starts nothing; it may name what the user has run before, and that runs again (docs/cli.md, "Which program an entry runs").
namespace attest {

// Notes a file in $XDG_STATE_HOME/attest/subjects (~/.local/state/attest/subjects), with its owner. Where that cannot be written,
// nothing is noted.
void note_started(const std::filesystem::path& file);

// Whether the file was noted under this path, links resolved, and has the owner that it had then.
bool was_started(const std::filesystem::path& file);

}  // namespace attest

#pragma once

namespace attest {

// A worker (docs/worker.md) that serves the subjects of the plug-in `file`, read from standard input and answered on
// standard output until the former ends. Returns the status of its process: 0, or 3 after a sentence on standard error.
int serve_plugin(const char* file);

}  // namespace attest

// attest-plugin-host PLUGIN: the plug-in's damage to memory ends with this process.
#include <cstdio>

#include "subjects/host.hpp"
#include "subjects/sanitizer.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: attest-plugin-host PLUGIN, started by attest: it speaks the protocol of docs/worker.md\n",
               stderr);
    return 2;
  }
  attest::preload_sanitizer(argv[1], argv);
  return attest::serve_plugin(argv[1]);
}

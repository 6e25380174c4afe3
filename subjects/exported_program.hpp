#pragma once
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "subjects/resolve.hpp"

namespace attest {

// The explicit graph of a program that torch exported (MODEL.pt2), as torch.onnx.export makes it in the Python that
// asks runtimes.
struct ExportedProgram {
  std::string onnx;                                            // bytes of the file
  std::vector<std::pair<std::string, std::string>> lengths{};  // lengths of open axes that it was exported for: "1..64"
};
// Throws Error(no_subject), one sentence, where that Python cannot make one.
ExportedProgram exported_program(const std::filesystem::path& file, const ResolveOptions& options);

}  // namespace attest

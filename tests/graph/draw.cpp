#include "tests/graph/draw.hpp"

#include "core/rng.hpp"
#include "graph/read.hpp"

namespace attest::graph::test {

std::uint64_t Draw::bits() { return extend(seed_, count_++); }

Index Draw::below(Index n) { return static_cast<Index>(attest::below(bits(), static_cast<std::uint64_t>(n))); }

const std::vector<std::string>& models() {
  static const std::vector<std::string> names{
      "attention-queries", "attention-scores", "attention-both", "attention-division", "attention-f16", "norm",
      "norm-op",           "encoder"};
  return names;
}

Model model(const std::string& name) {
  return load_model(std::string(ATTEST_SOURCE_DIR "/tests/graph/models/") + name + ".onnx");
}

}  // namespace attest::graph::test

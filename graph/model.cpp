#include "graph/model.hpp"

#include <fmt/format.h>

namespace attest::graph {

std::string described(const Node& node, std::size_t number) {
  return node.name.empty() ? fmt::format("node {} ({})", number, node.op)
                           : fmt::format("node '{}' ({})", node.name, node.op);
}

}  // namespace attest::graph

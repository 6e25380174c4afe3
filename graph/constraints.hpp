#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/problem.hpp"
#include "graph/roles.hpp"

namespace attest::graph {

// The facts about a model's inputs that its owner knows and the graph does not show: by names of axes and inputs.
struct Constraints {
  struct Range {
    Index least = 1, most = longest_size;
  };
  std::map<std::string, std::vector<Range>, std::less<>> sizes;    // lengths that an open axis may have
  std::map<std::string, std::vector<Regime>, std::less<>> values;  // ways in which an input may be made
  std::map<std::string, Use, std::less<>> roles;                   // the meaning of an input's numbers
  // The owner's sets of inputs, complete, of types and shapes that the model takes: problems are drawn around them.
  // nullptr: none.
  std::shared_ptr<const std::vector<Feeds>> given{};

  [[nodiscard]] bool permits(const std::string& axis, Index size) const;
  // The largest permitted length below `size`; 0 where there is none.
  [[nodiscard]] Index below(const std::string& axis, Index size) const;
  // `size`, or a permitted length in its place.
  [[nodiscard]] Index near(const std::string& axis, Index size) const;
  [[nodiscard]] bool permits(const std::string& input, Regime regime) const;
};

// Adds one: "size.AXIS" and lengths as in "1..8,16"; "values.INPUT" and regimes as in "prefix,all"; "role.INPUT" and
// one of floats, addend, flags, lengths and ids:COUNT (numbers below COUNT). A later one of the same key takes the
// place of an earlier one. Throws Error(usage), one sentence that names the key.
void constrain(Constraints& constraints, std::string_view key, std::string_view value);
// "floats", "ids:2": what constrain() takes of a role.
std::string to_text(const Use& use);
// "size.batch=1..8,16 values.mask=prefix role.ids=ids:30": the same constraints but for `given`, the same text.
std::string to_text(const Constraints& constraints);

}  // namespace attest::graph

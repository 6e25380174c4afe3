#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "engine/key.hpp"

namespace attest::engine {

// Decides which failures are worth shrinking. Fed in case order, and told nothing of what becomes of them, so that its
// answers depend on the cases alone.
class Triage {
 public:
  // Tells whether to shrink a failure of this key and signature (bucket.hpp): the first three of a signature and one in
  // fifty of the rest; once a key has many already, the first of each signature alone, and in the end none but one in
  // fifty. A key of deaths, errors and hangs has many sooner: each of its calls costs a start of the subject.
  // `understood`: how many predicates explain failures of the key; each makes room for what it does not explain, which
  // is another defect.
  bool ask(const FailureKey& key, const std::string& signature, std::uint64_t understood = 0);

  struct State {
    std::uint64_t failures = 0;  // failures of this signature
    std::uint64_t shrunk = 0;    // failures of which a reproducer was made
    std::string bucket;          // the latest reproducer's: the others are counted under it
    friend bool operator==(const State&, const State&) = default;
  };
  // The states by signature, and the number chosen of each key; public so that a campaign can store and restore them.
  std::map<std::string, State> states;
  std::map<std::string, std::uint64_t> chosen;
};

}  // namespace attest::engine

#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace attest::engine {

// Decides which failures are worth shrinking. Fed in case order, so that its answers depend on case numbers alone.
class Triage {
 public:
  // The bucket a failure of this signature is counted under without being shrunk; empty: shrink it. After three
  // reproducers of one signature fell into one bucket, 1 failure in 50 is shrunk.
  std::string ask(const std::string& signature);
  // Says into which bucket a shrunk failure of this signature fell.
  void learn(const std::string& signature, const std::string& bucket);

  struct State {
    std::string bucket;          // of the latest reproducer
    std::uint64_t agreeing = 0;  // reproducers in a row that fell there
    std::uint64_t counted = 0;   // failures since then
    friend bool operator==(const State&, const State&) = default;
  };
  std::map<std::string, State> states;  // by signature; public so that a campaign can store and restore it
};

}  // namespace attest::engine

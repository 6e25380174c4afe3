#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/laws.hpp"

namespace attest::models {

// The place in a graph where a failure arises (docs/graphs.md section 7).
struct Place {
  std::string
      tensor;  // the first one, in the order of evaluation, that is wrong as the only output of the graph up to it
  std::string node, op;   // the node that gives it
  std::size_t tried = 0;  // prefixes up to it
  std::size_t of = 0;     // all prefixes there are for the output that fails
  bool explains =
      false;  // the rest of the graph, evaluated rightly from that tensor as the runtime has it, gives what came out
  LawResult result;  // the prefix's
  // The shortest segment that fails when it is fed with right tensors; none where only longer ones than are tried do,
  // and of laws other than `spread` and `proven-bound`.
  struct Segment {
    std::vector<std::string> nodes;  // "weights (Softmax)", in the order of evaluation
    graph::Model model;
    std::vector<graph::Feeds> before;  // inputs of earlier runs, without which it holds
    graph::Feeds feeds;
    std::optional<graph::Array> got;  // none of a run that gave nothing, or nothing of that size
    graph::Array expected;
    LawResult result;
  };
  std::optional<Segment> segment;
};

// A problem of the whole graph that a process must be asked before, by the law that fails, or the failure does not
// show.
struct EarlierCall {
  graph::Feeds feeds;
  std::uint64_t seed = 0;
};

struct PlaceLimits {
  std::size_t prefixes = 2000;  // to be tried
  std::size_t segment = 12;     // nodes
  std::function<bool()> give_up{};
  // The failure class of a whole that stops with an error: a prefix that stops with another one is passed over, where
  // one stops alike.
  std::optional<std::string> stops_as{};
  std::vector<EarlierCall> before{};  // in order
};

// Finds the first part of a graph on which a law that fails on a case fails, by the same build of the same runtime;
// `proven-bound` names the part itself, which is asked alone. nullopt where no prefix fails: the whole graph alone
// does, or limits end the search. Throws as ask().
std::optional<Place> localise(const Law& law, const Asking& asking, const graph::Precision& precision,
                              std::uint64_t seed, const PlaceLimits& limits = {});

}  // namespace attest::models

#include "models/recorder.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace attest::models {

Answer Recorder::run(const Part& part, const Build& build, const graph::Feeds& feeds, std::size_t room, Freshness on) {
  if (stop_()) throw graph::Stopped();
  Answer answer = runtime_.run(part, build, feeds, room, on);
  if (answer.cut_off) throw graph::Stopped();
  if (!now_) return answer;
  const Freshness really = std::max(on, answer.on);
  if (really == Freshness::new_process) {
    processes_[build.level].clear();
    std::erase_if(graphs_, [&](const auto& one) { return one.first.first == build.level; });
  }
  const Graph graph{build.level, fmt::format("{} {} {}", part.key, build.threads, build.fixed)};
  if (really == Freshness::new_session) graphs_[graph].clear();
  add(processes_[build.level]);
  add(graphs_[graph]);
  std::erase(put_to_, graph);
  put_to_.push_back(graph);
  return answer;
}

void Recorder::at(const graph::Problem& problem) {
  now_ = std::make_shared<const graph::Problem>(problem);
  put_to_.clear();
}

void Recorder::add(Asked& asked) const {
  if (!asked.empty() && *asked.back() == *now_) return;
  asked.push_back(now_);
  // The first one stays: by it a runtime may have decided how to go on.
  if (asked.size() > most_kept + 1) asked.erase(asked.begin() + 1);
}

std::vector<std::vector<graph::Problem>> Recorder::histories(const std::string& level) const {
  std::vector<std::vector<graph::Problem>> all;
  const auto take = [&](const Asked& asked) {
    std::vector<graph::Problem> before;
    for (const auto& one : asked) before.push_back(*one);
    while (!before.empty() && before.back() == *now_) before.pop_back();
    if (!before.empty() && std::ranges::find(all, before) == all.end()) all.push_back(std::move(before));
  };
  for (auto graph = put_to_.rbegin(); graph != put_to_.rend(); ++graph)
    if (const auto known = graphs_.find(*graph); known != graphs_.end()) take(known->second);
  if (const auto known = processes_.find(level); known != processes_.end()) take(known->second);
  return all;
}

}  // namespace attest::models

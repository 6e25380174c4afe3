#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/problem.hpp"
#include "core/subject.hpp"
#include "engine/check.hpp"
#include "engine/ops.hpp"

namespace attest::engine {

// The keys of failures that a fresh instance was seen to show: others are not asked of one again. For any number of
// threads.
class Settled {
 public:
  [[nodiscard]] bool contains(const std::string& key) const {
    const std::lock_guard lock(guard_);
    return keys_.contains(key);
  }
  void add(const std::string& key) {
    const std::lock_guard lock(guard_);
    keys_.insert(key);
  }

 private:
  mutable std::mutex guard_;
  std::set<std::string> keys_;
};

// The knowledge of one instance of the subject beside its answers: the checks it was asked since it started, and the
// problem by which one tells that it still answers rightly.
class Instance {
 public:
  static constexpr std::size_t most_kept = 256;  // checks; older ones are forgotten
  static constexpr int most_searches = 4;

  // `settled`: the keys settled by all instances that are asked in one campaign; null: by this one.
  explicit Instance(std::shared_ptr<Settled> settled = nullptr)
      : settled_(settled ? std::move(settled) : std::make_shared<Settled>()) {}

  void asked(const Problem& problem, std::span<const std::size_t> laws);
  // A fresh instance took its place.
  void started();
  // A point in an instance's life.
  struct Mark {
    std::uint64_t start, now;
  };
  [[nodiscard]] Mark mark() const noexcept { return {start_, now_}; }
  // The checks that the life of `mark` was asked until then, as far as they are kept and `most` allows, oldest first.
  [[nodiscard]] std::vector<Asked> before(Mark mark, std::size_t most = most_kept) const;

  [[nodiscard]] bool is_settled(const std::string& key) const { return settled_->contains(key); }
  void settle(const std::string& key) { settled_->add(key); }

  // Searches for the calls before a failure cost a life each, and more: there are few that explain nothing, or a
  // death.
  [[nodiscard]] bool may_search() const noexcept { return searches_ < most_searches; }
  void searched() noexcept { ++searches_; }

  // An error ended it, and nothing takes its place. Whether that was known.
  bool lose() noexcept { return std::exchange(is_lost_, true); }

  // A problem that a fresh instance answers rightly.
  struct Canary {
    std::optional<Problem> problem;
    bool none = false;  // a fresh instance answers none of those that were tried
  };
  [[nodiscard]] Canary& canary(Format dtype) { return canaries_[dtype]; }
  // The same of a peer that is a subject under test too: its canaries alone.
  [[nodiscard]] Instance& peer();

 private:
  std::vector<Asked> ring_;
  std::uint64_t now_ = 0, start_ = 0;
  std::map<Format, Canary> canaries_;
  std::shared_ptr<Settled> settled_;
  int searches_ = 0;
  bool is_lost_ = false;
  std::unique_ptr<Instance> peer_;
};

// The instances of one thread: that of the subject, that of its peer, and what is known of the first. They are started
// on first use.
class Station {
 public:
  // `peer` may be null; both must outlive it. `compares`: as a bench has it. `settled`: as an instance has it.
  Station(const SubjectFactory& subject, const SubjectFactory* peer, bool compares = false,
          std::shared_ptr<Settled> settled = nullptr)
      : factory_(&subject),
        peer_factory_(peer),
        instance_(std::make_unique<Instance>(std::move(settled))),
        compares_(compares) {}

  // Throws Error(no_subject) if one cannot be started.
  Bench bench();

 private:
  const SubjectFactory *factory_, *peer_factory_;
  std::unique_ptr<Subject> subject_, peer_;
  std::unique_ptr<Instance> instance_;
  bool compares_;
};

}  // namespace attest::engine

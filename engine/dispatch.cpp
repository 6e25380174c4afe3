#include "engine/dispatch.hpp"

#include <chrono>
#include <utility>

namespace attest::engine {

CaseRecord* Dispatch::give_back(CaseRecord* asked, bool ended) {
  const std::lock_guard lock(guard_);
  asked->back = true;
  CaseRecord* rest = std::exchange(asked->rest, nullptr);
  changed_.notify_all();
  if (rest != nullptr && !ended && !stopped_) return rest;
  --out_;
  while (rest != nullptr) {
    left_.push_back(rest);
    rest = std::exchange(rest->rest, nullptr);
  }
  return nullptr;
}

CaseRecord* Dispatch::next(bool wait) {
  std::unique_lock lock(guard_);
  for (;;) {
    if (has_more() && !held_) {
      if (!left_.empty()) {
        CaseRecord* one = left_.front();
        left_.pop_front();
        ++out_;
        return one;
      }
      if (cases_.size() < most_kept) break;
    }
    if (!wait || (!has_more() && out_ == 0) || stopped_) return nullptr;
    if (!may_grow())
      changed_.wait(lock);
    else if (!changed_.wait_for(lock, std::chrono::duration<double>(growth_->patience), [&] { return !may_grow(); }))
      grow();
  }
  CaseRecord *first = nullptr, *latest = nullptr;
  const std::uint64_t plan = next_ / repeat_;
  for (; next_ < end_ && next_ / repeat_ == plan; next_ = shard_.next(next_ + 1, repeat_)) {
    CaseRecord& record = cases_.emplace_back();
    record.number = next_;
    (latest == nullptr ? first : latest->rest) = &record;
    latest = &record;
  }
  ++out_;
  return first;
}

void Dispatch::grow() {
  end_ = growth_->next_end(end_);
  changed_.notify_all();
}

bool Dispatch::is_over() const {
  const std::lock_guard lock(guard_);
  return !has_more() && out_ == 0;
}

void Dispatch::stop() {
  const std::lock_guard lock(guard_);
  stopped_ = true;
  changed_.notify_all();
}

void Dispatch::hold() {
  const std::lock_guard lock(guard_);
  held_ = true;
}

void Dispatch::go_on() {
  const std::lock_guard lock(guard_);
  held_ = false;
  changed_.notify_all();
}

std::optional<CaseRecord> Dispatch::take() {
  const std::lock_guard lock(guard_);
  if (cases_.empty() || !cases_.front().back) return std::nullopt;
  std::optional<CaseRecord> taken(std::move(cases_.front()));
  cases_.pop_front();
  changed_.notify_all();
  return taken;
}

void Dispatch::wait(double seconds) {
  std::unique_lock lock(guard_);
  const auto is_back = [&] { return (!cases_.empty() && cases_.front().back) || (!has_more() && out_ == 0); };
  if (!changed_.wait_for(lock, std::chrono::duration<double>(seconds), is_back) && may_grow()) grow();
}

}  // namespace attest::engine

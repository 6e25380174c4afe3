#pragma once
#include <condition_variable>
#include <mutex>
#include <utility>

namespace attest::engine {

// Cases run side by side, and now and then one of them must be asked alone, so that it is not slow for the others'
// sake.
class Quiet {
 public:
  // While one of these lives, a case runs.
  class Case {
   public:
    explicit Case(Quiet& quiet) : quiet_(quiet) { quiet_.enter(); }
    ~Case() { quiet_.leave(); }
    Case(const Case&) = delete;
    Case& operator=(const Case&) = delete;

   private:
    Quiet& quiet_;
  };

  // Runs `ask` while no other case runs. It is called within a case.
  template <class Ask>
  auto alone(Ask&& ask) {
    leave();
    const Alone hold(*this);
    return std::forward<Ask>(ask)();
  }

 private:
  // No case begins while one waits to be alone, or is. Ends as a case among others.
  struct Alone {
    explicit Alone(Quiet& quiet) : quiet_(quiet) {
      std::unique_lock lock(quiet_.guard_);
      ++quiet_.waiting_;
      quiet_.changed_.wait(lock, [&] { return quiet_.running_ == 0 && !quiet_.taken_; });
      --quiet_.waiting_;
      quiet_.taken_ = true;
    }
    ~Alone() {
      {
        const std::lock_guard lock(quiet_.guard_);
        quiet_.taken_ = false;
        ++quiet_.running_;
      }
      quiet_.changed_.notify_all();
    }
    Alone(const Alone&) = delete;
    Alone& operator=(const Alone&) = delete;
    Quiet& quiet_;
  };

  void enter() {
    std::unique_lock lock(guard_);
    changed_.wait(lock, [&] { return waiting_ == 0 && !taken_; });
    ++running_;
  }
  void leave() {
    {
      const std::lock_guard lock(guard_);
      --running_;
    }
    changed_.notify_all();
  }

  std::mutex guard_;
  std::condition_variable changed_;
  int running_ = 0, waiting_ = 0;
  bool taken_ = false;
};

}  // namespace attest::engine

#include "subjects/worker_source.hpp"

#include <utility>

#include "core/error.hpp"

namespace attest {

WorkerSource::WorkerSource(const WorkerCommand& command, const std::string& wanted)
    : command_(command), may_be_nursery_(command.ways.nursery && Nursery::is_possible()) {
  ready_ = anew(wanted);
  offers_ = ready_->offers();
}

std::unique_ptr<WorkerConnection> WorkerSource::first(const std::string& subject) {
  std::unique_lock guard(lock_);
  std::unique_ptr<WorkerConnection> ready = std::move(ready_);
  guard.unlock();
  return ready ? std::move(ready) : start(subject);
}

std::unique_ptr<WorkerConnection> WorkerSource::next(const std::string& subject) {
  std::unique_lock guard(lock_);
  std::unique_ptr<WorkerConnection> worker = std::move(ready_);
  if (nursery_ && nursery_->is_gone()) {
    nursery_.reset();
    worker.reset();
  }
  guard.unlock();
  if (worker) try {
      worker->await_description();
    } catch (const Error&) {
      worker.reset();  // it ended while it waited, or was long in loading
    }
  if (!worker) worker = start(subject);
  keep_ready(subject);
  return worker;
}

std::unique_ptr<WorkerConnection> WorkerSource::start(const std::string& subject) {
  if (std::shared_ptr<Nursery> parent = nursery()) try {
      auto worker = std::make_unique<WorkerConnection>(command_, subject, parent);
      worker->await_description();
      return worker;
    } catch (const Error&) {  // it is gone, perhaps: another takes its place
      const std::lock_guard guard(lock_);
      if (nursery_ == parent) nursery_.reset();
    }
  return anew(subject);
}

std::unique_ptr<WorkerConnection> WorkerSource::anew(const std::string& subject) {
  auto worker = std::make_unique<WorkerConnection>(command_, subject, nullptr, may_be_nursery_);
  worker->await_description();
  std::unique_ptr<Process> process = worker->take_nursery();
  if (!process) {
    const std::lock_guard guard(lock_);
    may_be_nursery_ = false;
    return worker;
  }
  auto nursery = std::make_shared<Nursery>(std::move(process));
  worker = std::make_unique<WorkerConnection>(command_, subject, nursery);
  worker->await_description();
  const std::lock_guard guard(lock_);
  nursery_ = std::move(nursery);
  return worker;
}

std::shared_ptr<Nursery> WorkerSource::nursery() {
  const std::lock_guard guard(lock_);
  return nursery_;
}

void WorkerSource::keep_ready(const std::string& subject) try {
  const std::lock_guard guard(lock_);
  if (!command_.ways.nursery || ready_ || (may_be_nursery_ && !nursery_)) return;
  ready_ = std::make_unique<WorkerConnection>(command_, subject, nursery_);
} catch (const Error&) {  // whoever needs one will be told
}

}  // namespace attest

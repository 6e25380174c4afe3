#include "subjects/worker.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>

#include "core/error.hpp"
#include "subjects/connection.hpp"
#include "subjects/names.hpp"

namespace attest {
namespace {

constexpr std::uintmax_t largest_log = std::uintmax_t{16} << 20;
constexpr int trips_between_looks = 1024;

// What a worker prints is kept, but not without end: a full log begins anew.
void keep_log_small(const std::filesystem::path& log) {
  std::error_code ignored;
  const std::uintmax_t size = std::filesystem::file_size(log, ignored);
  if (!ignored && size > largest_log) std::filesystem::resize_file(log, 0, ignored);
}

class WorkerSubject : public Subject {
 public:
  WorkerSubject(const SubjectInfo& info, const WorkerCommand& command, const std::string& subject,
                std::unique_ptr<WorkerConnection> connection)
      : info_(info), command_(command), subject_(subject), connection_(std::move(connection)) {}

  [[nodiscard]] const SubjectInfo& info() const noexcept override { return info_; }

  std::vector<CallResult> run(std::span<const attest_attention> calls) override {
    if (++trips_ % trips_between_looks == 0) keep_log_small(command_.log);
    std::vector<CallResult> results;
    while (results.size() < calls.size()) {
      if (!connection_)
        if (const std::string failure = start_again(); !failure.empty()) {
          results.resize(calls.size(), {CallStatus::error, failure});
          break;
        }
      const auto more = connection_->run(subject_, calls.subspan(results.size()));
      results.insert(results.end(), more.begin(), more.end());
      if (!connection_->usable()) connection_.reset();
    }
    return results;
  }

  bool renew() override {
    connection_.reset();
    return true;
  }

 private:
  // Empty, or why it could not be.
  std::string start_again() {
    try {
      keep_log_small(command_.log);
      connection_ = std::make_unique<WorkerConnection>(command_, subject_);
      return {};
    } catch (const Error& error) {
      if (error.exit() != Exit::no_subject) throw;
      return std::string("the worker did not start again: ") + error.what();
    }
  }

  SubjectInfo info_;
  WorkerCommand command_;
  std::string subject_;
  std::unique_ptr<WorkerConnection> connection_;  // absent after a death, until the next call
  int trips_ = 0;
};

}  // namespace

struct WorkerFactory::Spare {
  std::mutex lock;
  std::unique_ptr<WorkerConnection> connection;
};

WorkerFactory::WorkerFactory(WorkerCommand command, const std::string& wanted, const std::string& display_name)
    : command_(std::move(command)), spare_(std::make_unique<Spare>()) {
  keep_log_small(command_.log);
  spare_->connection = std::make_unique<WorkerConnection>(command_, wanted);
  const std::vector<Offer>& offers = spare_->connection->offers();
  std::vector<std::string> names;
  for (const Offer& offer : offers) names.push_back(offer.name);
  const Offer& offer = offers[choose(names, wanted, command_.target)];
  subject_ = offer.name;
  info_ = subject_info(offer, display_name);
  if (!command_.file.empty()) origin_ = {std::filesystem::absolute(command_.file), subject_};
}

WorkerFactory::~WorkerFactory() = default;

std::unique_ptr<Subject> WorkerFactory::open() const {
  std::unique_ptr<WorkerConnection> connection;
  {
    const std::lock_guard guard(spare_->lock);
    connection = std::move(spare_->connection);
  }
  if (!connection) connection = std::make_unique<WorkerConnection>(command_, subject_);
  return std::make_unique<WorkerSubject>(info_, command_, subject_, std::move(connection));
}

}  // namespace attest

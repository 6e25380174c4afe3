#include "subjects/plugin.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "subjects/message.hpp"

namespace attest {
namespace {

constexpr std::size_t most_subjects = 1024;
constexpr std::uint32_t largest_table = 4096;  // a later ABI may append; more than this is no size
constexpr std::size_t longest_name = 200;
constexpr std::size_t longest_describe = std::size_t{1} << 20;
constexpr std::size_t message_size = 1024;

Error refuse(const std::filesystem::path& file, const std::string& why) {
  return {Exit::no_subject, file.string() + " cannot serve as a plug-in: " + why};
}

// A string of the table, or an error naming what it is.
std::string read(const std::filesystem::path& file, const char* text, std::size_t longest, const std::string& what) {
  if (text == nullptr) throw refuse(file, what + " is NULL");
  const std::size_t length = ::strnlen(text, longest + 1);
  if (length > longest) throw refuse(file, what + " does not end within " + std::to_string(longest) + " bytes");
  return {text, length};
}

PluginEntry read_entry(const std::filesystem::path& file, const attest_subject& table, std::size_t index) {
  const std::string which = "subject " + std::to_string(index);
  PluginEntry entry;
  entry.table = &table;
  entry.name = read(file, table.name, longest_name, "the name of " + which);
  const bool plain = std::all_of(entry.name.begin(), entry.name.end(),
                                 [](char c) { return c > ' ' && c <= '~' && c != ':' && c != '/'; });
  if (entry.name.empty() || !plain)
    throw refuse(file, "the name of " + which + " is no word: letters, digits and -_. can be typed after the colon");
  entry.version = read(file, table.version, longest_name, "the version of " + entry.name);
  entry.describe = read(file, table.describe, longest_describe, "the describe of " + entry.name);
  return entry;
}

// Room for a message and a guard behind it; the filling shows whether the message was ended.
class Message {
 public:
  Message() noexcept {
    std::memset(buffer_, filling, sizeof buffer_);
    buffer_[0] = '\0';
  }
  char* data() noexcept { return buffer_; }
  // The complaint about it, or nullptr.
  [[nodiscard]] const char* complaint() const noexcept {
    for (std::size_t i = message_size; i < sizeof buffer_; ++i)
      if (buffer_[i] != filling) return "it wrote past the end of its message";
    return std::memchr(buffer_, 0, message_size) == nullptr ? "its message is not terminated" : nullptr;
  }
  [[nodiscard]] std::string text() const { return one_line(buffer_); }

 private:
  static constexpr char filling = '\x7f';
  char buffer_[message_size + 256];
};

// Calls an entry point of a plug-in. `what` names it in errors.
template <class Call>
CallResult guarded(const std::string& what, Call&& call) {
  Message message;
  CallResult result;
  int code = 0;
  const auto start = std::chrono::steady_clock::now();
  try {
    code = call(message.data(), message_size);
  } catch (const std::exception& exception) {
    return {CallStatus::error, one_line(what + " threw an exception: " + exception.what())};
  } catch (...) {
    return {CallStatus::error, what + " threw an exception"};
  }
  result.elapsed_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
  if (const char* complaint = message.complaint()) {
    result.status = CallStatus::error;
    result.message = what + " returned " + std::to_string(code) + ", but " + complaint;
  } else if (code == ATTEST_UNSUPPORTED) {
    result.status = CallStatus::unsupported;
    result.message = message.text().empty() ? "unsupported, without a reason" : message.text();
  } else if (code == ATTEST_ERROR || code == ATTEST_LOST) {
    result.status = CallStatus::error;
    result.lost = code == ATTEST_LOST;
    result.message = message.text().empty() ? what + " failed without a message" : message.text();
  } else if (code != ATTEST_DONE) {
    result.status = CallStatus::error;
    result.message = what + " returned " + std::to_string(code) + ", which is none of 0, 1, 2 and 3";
  }
  return result;
}

}  // namespace

std::vector<PluginEntry> load_plugin(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored))
    throw Error(Exit::no_subject, "there is no file " + file.string());
  // An absolute path: dlopen searches the system's folders for a bare name.
  void* library = ::dlopen(std::filesystem::absolute(file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw refuse(file, one_line(::dlerror()));
  using Entry = const attest_subject* (*)(std::uint32_t, std::size_t*);
  const auto entry = reinterpret_cast<Entry>(::dlsym(library, "attest_plugin"));
  if (entry == nullptr) throw refuse(file, "it exports no symbol attest_plugin (attest/plugin.h)");
  std::size_t count = 0;
  const attest_subject* first = nullptr;
  try {
    first = entry(ATTEST_ABI, &count);
  } catch (const std::exception& exception) {
    throw refuse(file, one_line(std::string("its attest_plugin threw an exception: ") + exception.what()));
  } catch (...) {
    throw refuse(file, "its attest_plugin threw an exception");
  }
  if (first == nullptr)
    throw refuse(file,
                 "it does not speak ABI " + std::to_string(ATTEST_ABI) + ": rebuild it with this attest/plugin.h");
  if (count == 0 || count > most_subjects)
    throw refuse(file, "attest_plugin set the count to " + std::to_string(count) + " instead of 1 to 1024");
  const std::uint32_t size = first->struct_size;
  if (size < sizeof(attest_subject) || size > largest_table || size % alignof(attest_subject) != 0)
    throw refuse(file, "its struct_size is " + std::to_string(size) + " instead of sizeof(attest_subject), " +
                           std::to_string(sizeof(attest_subject)));
  std::vector<PluginEntry> entries;
  for (std::size_t i = 0; i < count; ++i) {
    const auto* table = reinterpret_cast<const attest_subject*>(reinterpret_cast<const char*>(first) + i * size);
    entries.push_back(read_entry(file, *table, i));
    const auto same = [&](const PluginEntry& other) { return other.name == entries.back().name; };
    if (std::count_if(entries.begin(), entries.end(), same) > 1)
      throw refuse(file, "two of its subjects are named " + entries.back().name);
  }
  return entries;
}

Offer offer_of(const PluginEntry& entry) {
  Offer offer{entry.name, entry.version, entry.describe, {}};
  const auto describe = parse_foreign(entry.describe);
  const auto ops = describe.is_object() ? describe.value("ops", nlohmann::json()) : nlohmann::json();
  if (describe.is_discarded())
    offer.error = "its describe is no JSON: " + one_line(std::string_view(entry.describe).substr(0, 60));
  for (const CallShape* shape : call_shapes())
    if (offer.error.empty() && std::find(ops.begin(), ops.end(), shape->op) != ops.end() &&
        !shape->answers(*entry.table))
      offer.error = "its describe offers " + std::string(shape->op) + ", and the function is NULL";
  return offer;
}

PluginKernel::PluginKernel(const PluginEntry& entry) : entry_(entry) {
  const attest_subject& table = *entry_.table;
  if (table.open == nullptr) return;
  const CallResult result =
      guarded("open", [&](char* text, std::size_t size) { return table.open(table.self, "{}", text, size); });
  if (result.status != CallStatus::done) throw Error(Exit::no_subject, "its open refuses: " + result.message);
}

PluginKernel::~PluginKernel() {
  if (entry_.table->close == nullptr) return;
  try {
    entry_.table->close(entry_.table->self);
  } catch (...) {  // nothing is left to report to
  }
}

CallResult PluginKernel::run(const Call& call) const {
  const CallShape& shape = call.shape();
  const std::string op(shape.op);
  if (!shape.answers(*entry_.table)) return {CallStatus::error, entry_.name + " has no " + op + " function"};
  return guarded(op.c_str(),
                 [&](char* text, std::size_t size) { return shape.ask(*entry_.table, call.data(), text, size); });
}

struct InProcessPlugin::Shared {
  explicit Shared(const PluginEntry& entry) : kernel(entry) {}
  PluginKernel kernel;
  std::mutex one_at_a_time;
};

InProcessPlugin::InProcessPlugin(const PluginEntry& entry, const std::string& file, const std::string& display_name)
    : info_(subject_info(offer_of(entry), display_name)), shared_(std::make_shared<Shared>(entry)) {
  if (!file.empty()) origin_ = {std::filesystem::absolute(file), entry.name};
}

std::unique_ptr<Subject> InProcessPlugin::open() const {
  class Instance : public Subject {
   public:
    Instance(const SubjectInfo& info, std::shared_ptr<Shared> shared) : info_(info), shared_(std::move(shared)) {}
    [[nodiscard]] const SubjectInfo& info() const noexcept override { return info_; }
    std::vector<CallResult> run(std::span<const Call> calls) override {
      std::unique_lock lock(shared_->one_at_a_time, std::defer_lock);
      if (!info_.concurrent) lock.lock();
      std::vector<CallResult> results;
      for (const Call& call : calls) results.push_back(shared_->kernel.run(call));
      return results;
    }

   private:
    SubjectInfo info_;
    std::shared_ptr<Shared> shared_;
  };
  return std::make_unique<Instance>(info_, shared_);
}

}  // namespace attest

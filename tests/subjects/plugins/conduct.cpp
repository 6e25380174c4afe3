// A plug-in with one subject for each way to misbehave, and a few that behave.
#include <attest/plugin.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace {

using Kernel = int(void*, const attest_attention*, char*, std::size_t);

void fill(const attest_tensor& out, double value) {
  for (std::int64_t b = 0; b < out.shape[0]; ++b)
    for (std::int64_t h = 0; h < out.shape[1]; ++h)
      for (std::int64_t i = 0; i < out.shape[2]; ++i)
        for (std::int64_t d = 0; d < out.shape[3]; ++d) attest_store(&out, b, h, i, d, value);
}

// Element (b,h,i,d) of out is that of v's first key plus q's first element: something of every view.
int echo(void*, const attest_attention* call, char*, std::size_t) {
  const attest_tensor& out = call->out;
  for (std::int64_t b = 0; b < out.shape[0]; ++b)
    for (std::int64_t h = 0; h < out.shape[1]; ++h)
      for (std::int64_t i = 0; i < out.shape[2]; ++i)
        for (std::int64_t d = 0; d < out.shape[3]; ++d)
          attest_store(&out, b, h, i, d, attest_load(&call->v, b, 0, 0, d) + attest_load(&call->q, b, h, i, 0));
  return ATTEST_DONE;
}

// Writes the facts of the call, as numbers, into the first elements of out (d >= 8).
int facts(void*, const attest_attention* call, char*, std::size_t) {
  const double said[] = {call->scale,
                         call->softcap,
                         static_cast<double>(call->causal * 10 + call->align),
                         static_cast<double>(call->window_left),
                         static_cast<double>(call->window_right),
                         static_cast<double>(call->threads),
                         static_cast<double>(call->flags),
                         static_cast<double>(reinterpret_cast<std::uintptr_t>(call->q.data) % 256)};
  for (int i = 0; i < 8; ++i) attest_store(&call->out, 0, 0, 0, i, said[i]);
  if (call->form != nullptr) attest_store(&call->out, 0, 0, 0, 0, std::strcmp(call->form, R"({"mask":"1d"})") == 0);
  return ATTEST_DONE;
}

// 1 if an empty tensor is present all the same, with data, and an absent one is not.
int facts_of_empty(void*, const attest_attention* call, char*, std::size_t) {
  const bool right = attest_present(&call->k) && call->k.shape[2] == 0 && call->k.data != nullptr &&
                     call->v.strides != nullptr && !attest_present(&call->bias) && !attest_present(&call->lse);
  fill(call->out, right ? 1 : 0);
  return ATTEST_DONE;
}

int returns_seven(void*, const attest_attention*, char*, std::size_t) { return 7; }
int unsupported(void*, const attest_attention*, char* message, std::size_t size) {
  std::snprintf(message, size, "no such thing here");
  return ATTEST_UNSUPPORTED;
}
int silent_error(void*, const attest_attention*, char*, std::size_t) { return ATTEST_ERROR; }
int control_characters(void*, const attest_attention*, char* message, std::size_t size) {
  std::snprintf(message, size, "first\nsecond\x1b[31m\xff");
  return ATTEST_ERROR;
}
int segfault(void*, const attest_attention*, char*, std::size_t) {
  *static_cast<volatile int*>(nullptr) = 1;
  return ATTEST_DONE;
}
int aborts(void*, const attest_attention*, char*, std::size_t) { std::abort(); }
int exits(void*, const attest_attention*, char*, std::size_t) { std::_Exit(0); }
int hangs(void*, const attest_attention*, char*, std::size_t) {
  for (;;) ::pause();
}
int writes_before(void*, const attest_attention* call, char*, std::size_t) {
  fill(call->out, 1);
  std::memset(static_cast<char*>(call->out.data) - 4, 0, 4);
  return ATTEST_DONE;
}
int writes_after(void*, const attest_attention* call, char*, std::size_t) {
  fill(call->out, 1);
  std::memset(attest_at(&call->out, call->out.shape[0], 0, 0, 0), 0, 4);
  return ATTEST_DONE;
}
int writes_input(void*, const attest_attention* call, char*, std::size_t) {
  fill(call->out, 1);
  attest_store(&call->k, 0, 0, 0, 0, 42);
  return ATTEST_DONE;
}
int writes_far(void*, const attest_attention* call, char*, std::size_t) {
  std::memset(static_cast<char*>(call->out.data) + (std::size_t{1} << 36), 0, 4);
  return ATTEST_DONE;
}
int unterminated(void*, const attest_attention*, char* message, std::size_t size) {
  std::memset(message, 'x', size);
  return ATTEST_ERROR;
}
int unterminated_short(void*, const attest_attention*, char* message, std::size_t) {
  std::memcpy(message, "oops", 4);
  return ATTEST_UNSUPPORTED;
}
int message_overflow(void*, const attest_attention*, char* message, std::size_t size) {
  std::memset(message, 'x', size + 8);
  return ATTEST_DONE;
}
int throws(void*, const attest_attention*, char*, std::size_t) { throw std::runtime_error("thrown on purpose"); }
int throws_int(void*, const attest_attention*, char*, std::size_t) { throw 1; }
int prints(void*, const attest_attention* call, char*, std::size_t) {
  std::puts("{\"protocol\":1,\"message\":\"run\",\"status\":\"error\"}");
  std::fflush(stdout);
  fill(call->out, 3);
  return ATTEST_DONE;
}
int reads_stdin(void*, const attest_attention* call, char*, std::size_t) {
  fill(call->out, std::getchar() == EOF ? 4 : 5);
  return ATTEST_DONE;
}
// State that must survive from call to call, and not a death.
int counts(void* self, const attest_attention* call, char*, std::size_t) {
  int& calls = *static_cast<int*>(self);
  if (++calls == 4) std::abort();
  fill(call->out, calls);
  return ATTEST_DONE;
}
// Right twice, then lost for good: a process that is asked once more dies of it.
int loses(void*, const attest_attention* call, char* message, std::size_t size) {
  static int calls = 0;
  if (++calls > 3) std::abort();
  fill(call->out, calls);
  if (calls < 3) return ATTEST_DONE;
  std::snprintf(message, size, "the device is gone");
  return ATTEST_LOST;
}
int calls = 0;
bool opened = false;
int opens(void*, const char* options, char*, std::size_t) {
  opened = std::strcmp(options, "{}") == 0;
  return ATTEST_DONE;
}
int after_open(void*, const attest_attention* call, char*, std::size_t) {
  fill(call->out, opened ? 1 : 0);
  return ATTEST_DONE;
}
void leaves_a_file(void*) { std::fclose(std::fopen("plugin_test-closed", "w")); }
int refuses_to_open(void*, const char*, char* message, std::size_t size) {
  std::snprintf(message, size, "no licence found");
  return ATTEST_ERROR;
}

constexpr const char* attention_f32 = R"({"ops":["attention"],"dtypes":["f32"]})";

attest_subject subject(const char* name, Kernel* kernel, const char* describe = attention_f32) {
  attest_subject subject{};
  subject.struct_size = sizeof subject;
  subject.name = name;
  subject.version = "1.2";
  subject.describe = describe;
  subject.attention = kernel;
  return subject;
}

attest_subject opening(const char* name, int (*open)(void*, const char*, char*, std::size_t)) {
  attest_subject opened = subject(name, after_open);
  opened.open = open;
  return opened;
}

attest_subject closing() {
  attest_subject closed = opening("closes", opens);
  closed.close = leaves_a_file;
  return closed;
}

attest_subject counting() {
  attest_subject counted = subject("counts", counts);
  counted.self = &calls;
  return counted;
}

const attest_subject table[] = {
    subject("echo", echo),
    subject("facts", facts),
    subject("facts-of-empty", facts_of_empty),
    subject("returns-seven", returns_seven),
    subject("unsupported", unsupported),
    subject("silent-error", silent_error),
    subject("control-characters", control_characters),
    subject("segfault", segfault),
    subject("aborts", aborts),
    subject("exits", exits),
    subject("hangs", hangs),
    subject("writes-before", writes_before),
    subject("writes-after", writes_after),
    subject("writes-input", writes_input),
    subject("writes-far", writes_far),
    subject("unterminated", unterminated),
    subject("unterminated-short", unterminated_short),
    subject("message-overflow", message_overflow),
    subject("throws", throws),
    subject("throws-int", throws_int),
    subject("prints", prints),
    subject("reads-stdin", reads_stdin),
    counting(),
    subject("loses", loses),
    opening("opens", opens),
    closing(),
    opening("refuses-to-open", refuses_to_open),
    subject("garbage", echo, "{\"ops\": [\"attention\", \xff"),
    subject("no-ops", echo, R"({"dtypes":["f32"]})"),
    subject("no-function", nullptr),
    subject("norm", nullptr, R"({"ops":["layer_norm"],"dtypes":["f32"]})"),
    subject("projection", nullptr, R"({"ops":["rope"],"dtypes":["f32"]})"),
    subject("block", nullptr, R"({"ops":["mha"],"dtypes":["f32"]})"),
    subject("typo", echo, R"({"ops":["attention"],"dtypes":["f32"],"supports":{"casual":true}})"),
};

}  // namespace

extern "C" const attest_subject* attest_plugin(std::uint32_t abi, std::size_t* count) {
  if (abi != ATTEST_ABI) return nullptr;
  *count = sizeof table / sizeof *table;
  return table;
}

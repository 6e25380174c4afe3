// A plug-in that answers garbage in the one field that the environment variable ATTEST_TEST_GARBAGE names.
#include <attest/plugin.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>

namespace {

constexpr const char* plain_describe = R"({"ops":["attention"],"dtypes":["f32"]})";

std::string mode() {
  const char* name = std::getenv("ATTEST_TEST_GARBAGE");
  return name == nullptr ? "" : name;
}

// A pointer to no address of any process.
template <class Pointer>
Pointer wild() {
  return reinterpret_cast<Pointer>(std::uintptr_t{0x10});
}

void crash() {
  static int* volatile nowhere = wild<int*>();
  *nowhere = 1;
}

int attention(void*, const attest_attention* call, char* message, std::size_t size) {
  const std::string garbage = mode();
  if (garbage == "code-least") return std::numeric_limits<int>::min();
  if (garbage == "code-minus-one") return -1;
  if (garbage == "message-of-done-unterminated") std::fill_n(message, size, 'x');
  if (garbage == "message-of-bytes") {
    for (std::size_t i = 0; i + 1 < size; ++i) message[i] = static_cast<char>(i % 255 + 1);
    message[size - 1] = '\0';
    return ATTEST_UNSUPPORTED;
  }
  if (garbage == "call-written-over") *const_cast<attest_attention*>(call) = attest_attention{};
  if (garbage == "shape-written-over")
    call->out.shape[3] = call->out.strides[3] = std::numeric_limits<std::int64_t>::max();
  return ATTEST_DONE;
}

int open(void*, const char*, char* message, std::size_t size) {
  const std::string garbage = mode();
  if (garbage == "open-code") return 7;
  if (garbage == "open-unterminated") std::fill_n(message, size, 'x');
  if (garbage == "open-throws") throw std::runtime_error("no\nlicence");
  if (garbage == "open-crashes") crash();
  if (garbage == "open-exits") std::_Exit(0);
  if (garbage == "open-hangs") ::sleep(3600);
  return ATTEST_DONE;
}

void close(void*) {
  const std::string garbage = mode();
  if (garbage == "close-throws") throw 1;
  if (garbage == "close-crashes") crash();
  if (garbage == "close-hangs") ::sleep(3600);
}

// The text of a field that is garbage in the way `what` says; nullptr if it is not.
const char* text_of(const std::string& what) {
  static const std::string longest(std::size_t{2} << 20, 'x'), deep(1000000, '[');
  if (what == "empty") return "";
  if (what == "long") return longest.c_str();
  if (what == "control") return "a\x1b[31m\nb";
  if (what == "space") return "a b";
  if (what == "no-utf8") return "\xff\xfe";
  if (what == "deep") return deep.c_str();
  if (what == "wild") return wild<const char*>();
  return nullptr;
}

}  // namespace

extern "C" const attest_subject* attest_plugin(std::uint32_t, std::size_t* count) {
  static attest_subject table[2];
  const std::string garbage = mode();
  for (attest_subject& subject : table) {
    subject = attest_subject{};
    subject.struct_size = sizeof subject;
    subject.name = &subject == table ? "a" : "b";
    subject.version = "1";
    subject.describe = plain_describe;
    subject.open = open;
    subject.close = close;
    subject.attention = attention;
  }
  *count = 1;
  attest_subject& first = table[0];
  const auto field = [&](const std::string& name, const char*& value) {
    if (garbage == name + "-null") value = nullptr;
    if (garbage.rfind(name + "-", 0) == 0)
      if (const char* text = text_of(garbage.substr(name.size() + 1))) value = text;
  };
  field("name", first.name);
  field("version", first.version);
  field("describe", first.describe);
  if (garbage == "size-zero") first.struct_size = 0;
  if (garbage == "size-huge") first.struct_size = 0xffffffff;
  if (garbage == "size-odd") first.struct_size += 1;
  if (garbage == "count-untouched") *count = 0;
  if (garbage == "count-past-the-table") *count = 1024;
  if (garbage == "reserved") first.reserved = 0xffffffff;
  if (garbage == "self-wild") first.self = wild<void*>();
  if (garbage == "function-wild") first.attention = wild<decltype(first.attention)>();
  if (garbage == "open-wild") first.open = wild<decltype(first.open)>();
  if (garbage == "entry-exits") std::_Exit(3);
  if (garbage == "entry-hangs") ::sleep(3600);
  if (garbage == "table-wild") return wild<const attest_subject*>();
  return table;
}

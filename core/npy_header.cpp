#include "core/npy_header.hpp"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "core/error.hpp"

namespace attest {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t longest_header = std::size_t{1} << 16;
constexpr std::size_t most_axes = 8;

[[noreturn]] void refuse(std::string_view reason) {
  throw usage_error(fmt::format("it is no .npy array of a kind that numpy writes: {}", reason));
}

// The header is a Python dictionary of three known keys, written by repr(): {'descr': '<f4', 'fortran_order': False,
// 'shape': (2, 3), }.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  NpyHeader read() {
    NpyHeader header;
    bool descr = false, order = false, shape = false;
    const auto once = [](bool& seen) {
      if (seen) refuse("a key of its header is there twice");
      seen = true;
    };
    expect('{');
    while (!take('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr") {
        once(descr);
        header.descr = dtype();
      } else if (key == "fortran_order") {
        once(order);
        header.fortran_order = flag();
      } else if (key == "shape") {
        once(shape);
        header.shape = tuple();
      } else {
        refuse("its header has an unknown key");
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    blanks();
    if (!text_.empty()) refuse("its header goes on behind the dictionary");
    if (!descr || !order || !shape) refuse("its header lacks descr, fortran_order or shape");
    return header;
  }

 private:
  void blanks() { text_.remove_prefix(std::min(text_.find_first_not_of(" \n\t\r"), text_.size())); }
  bool take(char c) {
    blanks();
    if (!text_.starts_with(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) refuse(fmt::format("its header lacks a '{}'", c));
  }
  std::string string() {
    blanks();
    const char quote = text_.empty() ? '\0' : text_.front();
    const std::size_t end = quote == '\'' || quote == '"' ? text_.find(quote, 1) : std::string_view::npos;
    if (end == std::string_view::npos) refuse("its header lacks a quoted word");
    std::string word(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return word;
  }
  // A structured dtype is a list of tuples; only its end matters.
  std::string dtype() {
    blanks();
    if (!text_.starts_with('[')) return string();
    int depth = 0;
    for (std::size_t i = 0; i < text_.size(); ++i) {
      if (text_[i] == '[') ++depth;
      if (text_[i] == ']' && --depth == 0) {
        text_.remove_prefix(i + 1);
        return "(structured)";
      }
    }
    refuse("its header lacks a ']'");
  }
  bool flag() {
    blanks();
    for (const auto& [word, value] : {std::pair{std::string_view("False"), false}, {"True", true}})
      if (text_.starts_with(word)) {
        text_.remove_prefix(word.size());
        return value;
      }
    refuse("fortran_order of its header is neither True nor False");
  }
  std::vector<Index> tuple() {
    std::vector<Index> shape;
    Index elements = 1;
    expect('(');
    while (!take(')')) {
      blanks();
      Index extent = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), extent);
      if (error != std::errc{} || extent < 0) refuse("an extent of its shape is no count of elements");
      text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
      if (shape.size() == most_axes) refuse(fmt::format("its shape has more than {} axes", most_axes));
      shape.push_back(extent);
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    // An extent of 0 must not hide that the others wrap round.
    for (const Index extent : shape)
      if (extent > 0 && __builtin_mul_overflow(elements, extent, &elements))
        refuse("its shape has more elements than a file can hold");
    return shape;
  }

  std::string_view text_;
};

}  // namespace

NpyHeader read_npy_header(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(magic) || text.size() < magic.size() + 2) refuse("it does not begin as one");
  const auto byte = [&](std::size_t at) -> std::size_t { return static_cast<unsigned char>(text[at]); };
  const std::size_t version = byte(magic.size());
  if (version < 1 || version > 3) refuse(fmt::format("its format version is {}", version));
  const std::size_t digits = version == 1 ? 2 : 4, begin = magic.size() + 2 + digits;
  if (text.size() < begin) refuse("it ends inside its header");
  std::size_t size = 0;
  for (std::size_t i = 0; i < digits; ++i) size |= byte(magic.size() + 2 + i) << (8 * i);
  if (size > longest_header) refuse("its header is longer than 64 KiB");
  if (text.size() - begin < size) refuse("it ends inside its header");
  NpyHeader header = Parser(text.substr(begin, size)).read();
  header.bytes = begin + size;
  return header;
}

}  // namespace attest

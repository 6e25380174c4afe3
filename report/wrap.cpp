#include "report/wrap.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <iostream>
#include <span>
#include <streambuf>
#include <utility>
#include <vector>

namespace attest::report {
namespace {

constexpr std::size_t least_columns = 40;  // a narrower terminal breaks lines itself

// Characters that move the cursor, in bytes of UTF-8 from `begin` on: none for control characters, escape sequences
// ("\x1b[31m") and the further bytes of a character. Returns the end of what stands at `begin`, and its columns.
std::pair<std::size_t, std::size_t> glyph(std::string_view text, std::size_t begin) {
  const auto byte = static_cast<unsigned char>(text[begin]);
  if (byte == 0x1B && text.substr(begin).starts_with("\x1b[")) {
    const auto last = std::find_if(text.begin() + static_cast<std::ptrdiff_t>(begin) + 2, text.end(),
                                   [](char c) { return c >= '@' && c <= '~'; });
    return {std::min(text.size(), static_cast<std::size_t>(last - text.begin()) + 1), 0};
  }
  return {begin + 1, byte < ' ' || (byte & 0xC0) == 0x80 ? 0 : 1};
}

std::size_t columns(std::string_view text) {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < text.size();) {
    const auto [end, wide] = glyph(text, i);
    sum += wide;
    i = end;
  }
  return sum;
}

// The part of a line that fits into `width`, with all its escape sequences.
std::string cut(std::string_view text, std::size_t width) {
  std::string all;
  for (std::size_t i = 0, at = 0; i < text.size();) {
    const auto [end, wide] = glyph(text, i);
    at += wide;
    if (wide == 0 || at <= width) all += text.substr(i, end - i);
    i = end;
  }
  return all;
}

std::string without_escapes(std::string_view text) {
  std::string all;
  for (std::size_t i = 0; i < text.size();) {
    const auto [end, wide] = glyph(text, i);
    if (text[i] != '\x1b') all += text.substr(i, end - i);
    i = end;
  }
  return all;
}

// A word of a problem: "lk=2", "edit=k[0,0,0,0]:0x0p+0"; none of a condition, "lk==2".
bool is_field(std::string_view word) {
  const std::size_t sign = word.find('=');
  return sign != std::string_view::npos && sign > 0 && !word.substr(sign).starts_with("==") &&
         std::ranges::all_of(word.substr(0, sign),
                             [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '.'; });
}

// A part of a line that stays whole, and the blanks before it.
struct Piece {
  std::size_t blanks;
  std::string text;
};

std::vector<Piece> pieces_of(std::string_view line) {
  std::vector<Piece> pieces;
  bool quoted = false, command = false, field = false;
  while (true) {
    const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
    const std::size_t end = std::min(line.find(' ', begin), line.size());
    if (begin == line.size()) return pieces;
    const std::string_view word = line.substr(begin, end - begin);
    const std::string plain = without_escapes(word);
    const bool joined = quoted || command || (field && is_field(plain));
    command = command || (begin > 1 && plain == "attest");
    field = is_field(plain);
    quoted = quoted != (std::ranges::count(word, '`') % 2 == 1);
    if (joined)
      pieces.back().text += std::string(begin, ' ') + std::string(word);
    else
      pieces.push_back({begin, std::string(word)});
    line.remove_prefix(end);
  }
}

// Pieces in lines of `width`, where they fit, all but the first indented by `indent`.
std::string in_lines(std::span<const Piece> pieces, std::size_t width, std::size_t indent) {
  std::string all;
  std::size_t at = 0;
  for (const auto& [blanks, text] : pieces) {
    const std::size_t wide = columns(text);
    if (at > indent && at + blanks + wide > width) {
      all += "\n" + std::string(indent, ' ');
      at = indent;
    } else {
      all += std::string(blanks, ' ');
      at += blanks;
    }
    all += text;
    at += wide;
  }
  return all;
}

}  // namespace

std::size_t terminal_columns(int descriptor) noexcept {
  winsize size{};
  if (::isatty(descriptor) == 0 || ::ioctl(descriptor, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

std::string wrapped(std::string_view line, std::size_t width, std::size_t indent) {
  return columns(line) <= width ? std::string(line) : in_lines(pieces_of(line), width, indent);
}

std::string wrapped(std::string_view line, std::size_t width) {
  std::vector<Piece> pieces = pieces_of(line);
  if (columns(line) <= width || pieces.empty()) return std::string(line);
  const std::size_t margin = pieces.front().blanks;
  std::size_t indent = margin + 2;  // the column where the last column begins in the left half
  std::size_t last = 0;             // the piece where it begins in the right one
  for (std::size_t i = 0, at = 0; i < pieces.size(); ++i) {
    at += pieces[i].blanks;
    if (i > 0 && pieces[i].blanks > 1) (at <= width / 2 ? indent : last) = at <= width / 2 ? at : i;
    at += columns(pieces[i].text);
  }
  if (last == 0) return in_lines(pieces, width, indent);
  pieces[last].blanks = margin + 4;
  const std::span all(pieces);
  return in_lines(all.first(last), width, indent) + "\n" + in_lines(all.subspan(last), width, margin + 4);
}

namespace {

class Wrapping : public std::streambuf {
 public:
  Wrapping(std::streambuf& to, std::size_t width) : to_(to), width_(width) {}
  ~Wrapping() override {
    if (!is_progress()) write(line_);
    to_.pubsync();
  }

 protected:
  int_type overflow(int_type c) override {
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    return take(traits_type::to_char_type(c)) ? c : traits_type::eof();
  }
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    for (std::streamsize i = 0; i < size; ++i)
      if (!take(text[i])) return i;
    return size;
  }
  int sync() override {
    if (changed_ && is_progress()) write(cut(line_, width_));
    changed_ = false;
    return failed_ ? -1 : to_.pubsync();
  }

 private:
  [[nodiscard]] bool is_progress() const { return line_.starts_with('\r'); }
  bool take(char c) {
    changed_ = true;
    if (c == '\r') line_.clear();
    if (c != '\n') {
      line_ += c;
      return true;
    }
    write(wrapped(std::exchange(line_, {}), width_) + "\n");
    return !failed_;
  }
  void write(const std::string& text) {
    const auto size = static_cast<std::streamsize>(text.size());
    failed_ = failed_ || to_.sputn(text.data(), size) != size;
  }

  std::streambuf& to_;
  std::size_t width_;
  std::string line_;      // what is not yet out, or a line of progress
  bool changed_ = false;  // since it was last shown
  bool failed_ = false;
};

}  // namespace

WrappedOutput::WrappedOutput(std::ostream& out, int descriptor) : out_(out), plain_(out.rdbuf()) {
  verbatim_stdout();  // takes the buffer of std::cout as it is now
  const std::size_t width = terminal_columns(descriptor);
  if (width == 0) return;
  wrapping_ = std::make_unique<Wrapping>(*plain_, std::max(width, least_columns));
  out_.rdbuf(wrapping_.get());
}

WrappedOutput::~WrappedOutput() {
  if (wrapping_ == nullptr) return;
  out_.flush();
  out_.rdbuf(plain_);
}

std::ostream& verbatim_stdout() {
  static std::ostream out(std::cout.rdbuf());
  return out;
}

}  // namespace attest::report

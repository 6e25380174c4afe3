#pragma once
#include <cstddef>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>

namespace attest::report {

// The columns of the terminal that a file descriptor is; 0 where it is none, or does not say.
std::size_t terminal_columns(int descriptor) noexcept;

// A line in lines of at most `width` columns, broken between words, all but the first indented by `indent`. Kept whole,
// however long: a word, text in backticks, the key=value words of a problem, and a command of attest at the end of a
// row. Escape sequences of colours take no column.
std::string wrapped(std::string_view line, std::size_t width, std::size_t indent);
// The same. Further lines stand below the last column of a row that begins in the left half, else two columns to the
// right. A last column that begins in the right half, as of a table, has lines of its own.
std::string wrapped(std::string_view line, std::size_t width);

// While it lives, what is printed on `out` is wrapped at the width of the terminal that `descriptor` is; elsewhere it
// stays as it is. A line goes out once it is whole; one of progress, which begins with a carriage return, at once, and
// is cut where the terminal ends.
class WrappedOutput {
 public:
  WrappedOutput(std::ostream& out, int descriptor);
  ~WrappedOutput();
  WrappedOutput(const WrappedOutput&) = delete;
  WrappedOutput& operator=(const WrappedOutput&) = delete;

 private:
  std::ostream& out_;
  std::streambuf* plain_;                     // as it was before
  std::unique_ptr<std::streambuf> wrapping_;  // null: no terminal
};

// Stdout for what programs read (JSON, scripts, manual pages), which is never wrapped.
std::ostream& verbatim_stdout();

}  // namespace attest::report

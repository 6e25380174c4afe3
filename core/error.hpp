#pragma once
#include <stdexcept>
#include <string>

namespace attest {

// Exit statuses of the command line (docs/cli.md). An Error carries the one it leads to.
enum class Exit : int {
  held = 0,        // every property held
  found = 1,       // a property failed, or a corpus entry did not give what it expects
  usage = 2,       // a flag, a file or a path is wrong
  internal = 3,    // attest itself or its oracle failed
  no_subject = 4,  // the subject could not be started
  incomplete = 5,  // nothing failed, and too little was done to say that it held: nothing judged, or shards are missing
  cannot_test = 125,  // for `git bisect run`
  interrupted = 130,  // a signal ended the work before its time, and nothing failed until then
};

// One sentence that names the thing, the place and the remedy. It stays one line that fits a screen whatever input it
// quotes: control characters become spaces, and the middle of more than 2,000 bytes is left out.
class Error : public std::runtime_error {
 public:
  Error(Exit exit, const std::string& sentence);
  [[nodiscard]] Exit exit() const noexcept { return exit_; }

 private:
  Exit exit_;
};

// The error that the system does not even reserve memory of which little would be used (Layout::far): the problem
// cannot be asked here.
class NotReserved : public Error {
 public:
  explicit NotReserved(const std::string& sentence) : Error(Exit::usage, sentence) {}
};

// The error that a tensor is larger than attest lays out. The user mends a problem that was given; the law mends one
// that it derived.
class TooLarge : public Error {
 public:
  explicit TooLarge(const std::string& sentence) : Error(Exit::usage, sentence) {}
};

inline Error usage_error(const std::string& sentence) { return {Exit::usage, sentence}; }
inline Error internal_error(const std::string& sentence) { return {Exit::internal, sentence}; }

}  // namespace attest

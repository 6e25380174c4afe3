#pragma once
#include <cstdint>
#include <string>

#include "engine/check.hpp"

namespace attest::engine {

// Tells if the subject returned nothing on a case: each of its calls was refused, or was an error, a crash or a
// time-out; or one was a time-out, and a fresh instance silent.
bool is_silent(const CaseOutcome& outcome);

// Cases on which the subject returned nothing, all for one reason, and after which it did not return anything either.
// Where a device is lost or a library is missing every call fails alike: that is one failure of what the subject stands
// on, and none of the problems.
class Silence {
 public:
  // `jobs`: cases that are asked side by side.
  explicit Silence(int jobs) : jobs_(jobs) {}
  // Counts the next case, which was over at `finished` seconds. True when it is time to ask a fresh instance whether it
  // returns anything: at once where one was asked, and was silent; after errors, crashes and time-outs of `patience`
  // cases; after refusals of more, and of those only where nothing was ever returned.
  bool add(std::uint64_t number, double finished, const CaseOutcome& outcome);
  // A fresh instance returns something: the next question comes after twice as many cases.
  void broken();
  [[nodiscard]] bool lasts() const noexcept { return cases_ > 0; }
  // Tells if something was returned before.
  [[nodiscard]] bool follows_an_answer() const noexcept { return lasts() && returned_; }
  [[nodiscard]] std::uint64_t first() const noexcept { return first_; }  // case
  [[nodiscard]] const std::string& reason() const noexcept { return reason_; }

 private:
  const int jobs_;
  std::uint64_t cases_ = 0, first_ = 0, patience_ = 32;
  double since_ = 0;           // seconds at the end of the first
  int returned_since_ = 0;     // cases; as many as there are jobs may have been under way
  std::string kind_, reason_;  // those of the first
  bool returned_ = false;      // some case returned something
};

}  // namespace attest::engine

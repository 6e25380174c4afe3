// A target with one defect of each kind, for replay_test.py.
#include "fuzz/target.hpp"

using namespace attest;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::as_text(data, size));
  fuzz::accepts([&] {
    if (text == "refused") throw usage_error("'refused' is refused: write something else");
    if (text == "throws") throw std::out_of_range("not an Error");
    if (text == "blames itself") throw internal_error("attest itself failed");
    if (text == "says nothing") throw usage_error("");
  });
  fuzz::require(text != "does not come back", "it does not come back");
  return 0;
}

// RC_PARAMS, which steers rapidcheck.
#include "engine/rc_params.hpp"

#include "fuzz/target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  attest::fuzz::accepts([&] { attest::engine::check_rc_params(attest::fuzz::as_text(data, size)); });
  return 0;
}

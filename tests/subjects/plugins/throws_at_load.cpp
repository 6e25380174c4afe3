// A plug-in whose subject cannot be made, as one that reads its weights first.
#include <attest/attest.hpp>
#include <stdexcept>

namespace {
std::function<void(const attest::Attention&)> kernel_of(const char* weights) {
  throw std::runtime_error(std::string("there is no file ") + weights);
}
}  // namespace

const attest_subject* attest_plugin(uint32_t abi, size_t* count) {
  static const attest::Plugin plugin{attest::subject("a", "{}", kernel_of("weights.bin"))};
  return plugin.table(abi, count);
}

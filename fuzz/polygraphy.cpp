// The JSON that Polygraphy writes for --save-inputs and --save-outputs.
#include "engine/saved_tensors.hpp"
#include "fuzz/target.hpp"

using namespace attest;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::as_text(data, size);
  for (const engine::SavedRun& run : {engine::SavedRun{}, engine::SavedRun{"trt-runner", 1}})
    fuzz::accepts([&] {
      for (const NamedArray& array : engine::read_polygraphy(text, "run.json", run))
        fuzz::require(array.size() >= 0, "an array of negative size");
    });
  return 0;
}

// growth PLUGIN SUBJECT CALLS: makes that many calls of a plug-in that uses cuda.hpp, of sizes that come again and
// again, and prints how much memory the device and this process have left after each tenth of them. 1 if the last half
// took some.
#include <attest/plugin.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace {

constexpr std::size_t guard = 1024;

// A contiguous [b,h,l,d] tensor of floats, with guards.
struct Tensor {
  std::array<std::int64_t, 4> shape, strides{};
  std::vector<float> memory;
  Tensor(std::int64_t b, std::int64_t h, std::int64_t l, std::int64_t d)
      : shape{b, h, l, d},
        strides{h * l * d, l * d, d, 1},
        memory(static_cast<std::size_t>(b * h * l * d) + 2 * guard, 0.25F) {}
  attest_tensor view() {
    attest_tensor tensor{};
    tensor.data = memory.data() + guard;
    tensor.device.type = ATTEST_CPU;
    tensor.ndim = 4;
    tensor.dtype = {ATTEST_FLOAT, 32, 1};
    tensor.shape = shape.data();
    tensor.strides = strides.data();
    return tensor;
  }
};

struct Held {
  double device = 0, process = 0;  // MiB
};
Held held() {
  Held held;
  std::size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) == cudaSuccess) held.device = static_cast<double>(total - free) / (1 << 20);
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmRSS:", 0) == 0) held.process = std::atof(line.c_str() + 6) / 1024;
  return held;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::fputs("usage: growth PLUGIN SUBJECT CALLS\n", stderr), 2;
  void* const library = dlopen(argv[1], RTLD_NOW);
  if (library == nullptr) return std::fprintf(stderr, "growth: %s\n", dlerror()), 2;
  std::size_t count = 0;
  const attest_subject* subject =
      reinterpret_cast<decltype(&attest_plugin)>(dlsym(library, "attest_plugin"))(ATTEST_ABI, &count);
  while (count > 0 && std::strcmp(subject->name, argv[2]) != 0) ++subject, --count;
  if (count == 0) return std::fprintf(stderr, "growth: %s has no subject %s\n", argv[1], argv[2]), 2;
  char message[1024] = "";
  if (subject->open(subject->self, "{}", message, sizeof message) != ATTEST_DONE)
    return std::fprintf(stderr, "growth: %s\n", message), 125;

  const int calls = std::atoi(argv[3]), step = calls >= 10 ? calls / 10 : 1;
  Held half;
  const auto start = std::chrono::steady_clock::now();
  for (int n = 1; n <= calls; ++n) {
    const std::int64_t b = 1 + n % 3, h = 1 + n % 4, queries = 1 + n * 7 % 70, keys = 1 + n * 13 % 300, d = 8 + n % 57;
    Tensor q(b, h, queries, d), k(b, h, keys, d), v(b, h, keys, d), out(b, h, queries, d);
    attest_attention call{};
    call.struct_size = sizeof call;
    call.q = q.view(), call.k = k.view(), call.v = v.view(), call.out = out.view();
    call.scale = 0.125;
    call.window_left = call.window_right = -1;
    const int code = subject->attention(subject->self, &call, message, sizeof message);
    if (code != ATTEST_DONE) return std::fprintf(stderr, "growth: call %d returned %d: %s\n", n, code, message), 1;
    for (std::size_t x = 0; x < out.memory.size(); ++x)
      if (out.memory[x] != 0.25F)
        return std::fprintf(stderr, "growth: call %d gave %g at %zu\n", n, out.memory[x], x), 1;
    if (n % step != 0) continue;
    const Held now = held();
    if (n <= calls / 2) half = now;
    std::printf("after %6d calls: device %.1f MiB in use, this process %.1f MiB, %.1f us a call\n", n, now.device,
                now.process,
                std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / n);
  }
  const Held now = held();
  const bool grew = now.device > half.device || now.process > half.process + 4;
  std::printf("%s over the last half\n", grew ? "memory grew" : "no memory was taken");
  return grew ? 1 : 0;
}

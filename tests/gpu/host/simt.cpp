#include <ucontext.h>

#include <memory>
#include <vector>

#include "cuda_runtime.h"

// Fibres. swapcontext() asks the system for the signal mask each time, which would be most of the work.
#if defined(__x86_64__) && defined(__GNUC__)
extern "C" void host_cuda_switch(void** from, void* to);
asm(R"(
.text
.globl host_cuda_switch
.type host_cuda_switch, @function
host_cuda_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size host_cuda_switch, .-host_cuda_switch
)");
#else
#error "fibres are written for x86-64 alone"
#endif

namespace host_cuda {
namespace {

constexpr std::size_t stack_size = std::size_t{64} << 10;

struct Barrier {
  unsigned members = 0, arrived = 0;
  std::uint64_t generation = 0;
};
struct Warp {
  Barrier barrier;
  std::uint64_t given[2][warp_size] = {};
};
struct Fibre {
  void* stack_pointer = nullptr;
  Where where;
  Warp* warp = nullptr;
  unsigned lane = 0;
  bool done = false;
};

std::vector<std::unique_ptr<char[]>> stacks;
std::vector<char> shared;
void* scheduler = nullptr;
Fibre* running = nullptr;
Barrier block;
const std::function<void()>* body = nullptr;

void give_way() {
  Fibre* const self = running;
  host_cuda_switch(&self->stack_pointer, scheduler);
  running = self;
}

void begin() {
  (*body)();
  running->done = true;
  give_way();
  std::abort();  // nobody resumes it
}

// Waits until all members have come, or have ended.
void meet(Barrier& barrier) {
  const std::uint64_t generation = barrier.generation;
  if (++barrier.arrived == barrier.members) {
    barrier.arrived = 0;
    ++barrier.generation;
    return;
  }
  while (barrier.generation == generation) give_way();
}

void run_block(const std::vector<dim3>& threads, dim3 index, dim3 grid, dim3 size) {
  std::vector<Fibre> fibres(threads.size());
  std::vector<Warp> warps((threads.size() + warp_size - 1) / warp_size);
  block = {static_cast<unsigned>(threads.size()), 0, 0};
  while (stacks.size() < threads.size()) stacks.push_back(std::make_unique<char[]>(stack_size));
  for (std::size_t n = 0; n < fibres.size(); ++n) {
    Fibre& fibre = fibres[n];
    fibre.where = {threads[n], index, size, grid};
    fibre.warp = &warps[n / warp_size];
    fibre.lane = n % warp_size;
    ++fibre.warp->barrier.members;
    auto top = reinterpret_cast<std::uintptr_t>(stacks[n].get() + stack_size) / 16 * 16;
    auto* words =
        reinterpret_cast<void**>(top) - 8;  // six registers, the return address, and one that keeps calls aligned
    std::memset(words, 0, 8 * sizeof *words);
    words[6] = reinterpret_cast<void*>(&begin);
    fibre.stack_pointer = words;
  }
  for (std::size_t left = fibres.size(); left > 0;)
    for (Fibre& fibre : fibres) {
      if (fibre.done) continue;
      running = &fibre;
      host_cuda_switch(&scheduler, fibre.stack_pointer);
      if (fibre.done) --left;
    }
}

}  // namespace

const Where& where() { return running->where; }
void* shared_memory() {
  return reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(shared.data()) + 255) / 256 * 256);
}
void block_barrier() { meet(block); }
void warp_barrier() { meet(running->warp->barrier); }

std::uint64_t exchange(std::uint64_t mine, unsigned from) {
  Warp& warp = *running->warp;
  auto& given = warp.given[warp.barrier.generation % 2];  // a lane is at most one exchange ahead of the slowest
  given[running->lane] = mine;
  meet(warp.barrier);
  return given[from % warp_size];
}
std::uint64_t ballot(bool mine) {
  Warp& warp = *running->warp;
  auto& given = warp.given[warp.barrier.generation % 2];
  given[running->lane] = mine ? 1 : 0;
  meet(warp.barrier);
  std::uint64_t bits = 0;
  for (unsigned lane = 0; lane < warp.barrier.members; ++lane) bits |= given[lane] << lane;
  return bits;
}

void run(dim3 grid, dim3 size, std::size_t shared_bytes, const std::function<void()>& thread) {
  body = &thread;
  shared.assign(shared_bytes + 256, '\xA5');
  std::vector<dim3> threads;
  for (unsigned z = 0; z < size.z; ++z)
    for (unsigned y = 0; y < size.y; ++y)
      for (unsigned x = 0; x < size.x; ++x) threads.emplace_back(x, y, z);
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) run_block(threads, {x, y, z}, grid, size);
}

}  // namespace host_cuda

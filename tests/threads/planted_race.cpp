// planted_race [race]: an OpenMP loop like the campaign's, in which every thread writes elements of its own and, on
// demand, one that all share. ThreadSanitizer must report the latter and nothing else.
#include <cstdio>
#include <vector>

int main(int argc, char**) {
  const bool race = argc > 1;
  std::vector<long> elements(400);
  long shared = 0;
#pragma omp parallel for schedule(dynamic, 1) num_threads(8)
  for (int i = 0; i < 400; ++i) {
    for (volatile int spin = 0; spin < 20000; ++spin) elements[static_cast<std::size_t>(i)] += i;
    if (race) shared += i;
  }
#pragma omp parallel for schedule(static) num_threads(4)
  for (int i = 0; i < 400; ++i) elements[static_cast<std::size_t>(399 - i)] += i;
  for (const long element : elements) shared += element;
  std::printf("%ld\n", shared);
}

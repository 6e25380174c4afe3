#pragma once
#include <fcntl.h>
#include <unistd.h>

namespace attest {

// The same file under a number that no child's stdin, stdout, stderr or shared memory takes. Closed on exec.
inline int out_of_the_way(int file) noexcept {
  if (file < 0) return file;
  const int moved = ::fcntl(file, F_DUPFD_CLOEXEC, 10);
  ::close(file);
  return moved;
}

}  // namespace attest

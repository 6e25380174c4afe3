#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace attest {

// Bytes of memory that this machine has, or that the container it runs in may use if that is less.
std::uint64_t machine_memory();

// Bytes that a process holds for itself: its private pages, swapped ones too, without files and shared memory, and
// without what it has only reserved. nullopt where the system does not tell.
std::optional<std::uint64_t> held_memory(pid_t process);

// The same with each page divided by the processes that share it since a fork; the same as held_memory() where the
// system does not tell. Walks all pages: milliseconds for each gigabyte.
std::uint64_t proportional_memory(pid_t process);

// "512 MB", "3.2 GB"; as everywhere in attest, powers of 1024.
std::string memory_text(std::uint64_t bytes);

}  // namespace attest

#pragma once

namespace attest {

// Landlock around a subject: processes inside may send signals to nobody outside, traces none of them, and reaches
// neither their memory nor their open files. (Who is privileged may still read their environments.) A process inherits
// the fence of the thread that starts it.

// The part of it that this system has: signals since Linux 6.12, the rest since 5.13.
enum class Fence : unsigned char { none, memory, memory_and_signals };
Fence fence_here() noexcept;

// Puts the calling thread inside one of its own, for good. False where the system has none.
bool fence_this_thread() noexcept;

}  // namespace attest

#pragma once
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/subject.hpp"

namespace attest {

// A subject that can be named without a file.
struct ListedSubject {
  std::string name;  // its name on the command line
  std::string doc;
  std::string parent{};  // a fault's: the kernel it departs from, likewise
  std::string report{};  // a fault's: the public report behind it
  std::string family{};  // a fault's: those that go wrong alike have one
  std::string stage{};   // a fault's: where it goes wrong
};

// The operations that kernels live here of.
std::vector<std::string_view> builtin_ops();
// The kernels of an operation, builtin:NAME, the plain ones first; and its faults, fault:NAME, in the order of the
// catalogue. Without `op` they are the first operation's; an operation without kernels here has none. Names of
// layer_norm begin with ln-, those of mha with mha-: builtin:ln-fused, fault:ln-tail.
std::vector<ListedSubject> builtin_subjects(std::string_view op = {});
std::vector<ListedSubject> fault_subjects(std::string_view op = {});
// The kernel of an operation that computes stage by stage: builtin:explicit, builtin:ln-explicit, builtin:mha-explicit.
std::string reference_subject(std::string_view op);
// The operation of a kernel that such a name stands for; empty if there is none.
std::string builtin_op(std::string_view name);

// The kernel `builtin:NAME` or `fault:NAME`, nullptr if there is none. It computes in `policy` if given, else in the
// policy named like the dtype of the call (f32, f16, bf16, f64), of which f32, f16 and bf16 are drawn.
// `semantics`: the JSON of a contract of its operation, whose meanings that policies do not tell (what a row without
// keys is, in which order softcap and bias come) it keeps in place of its own; empty: its own. Throws Error(usage) if
// that is none.
std::unique_ptr<SubjectFactory> builtin_subject(std::string_view name, const std::string& policy,
                                                const std::string& semantics = {});

}  // namespace attest

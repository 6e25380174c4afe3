#pragma once
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/subject.hpp"

namespace attest {

// A subject that can be named without a file.
struct ListedSubject {
  std::string name;  // what the command line takes
  std::string doc;
  std::string parent{};  // of a fault: the kernel it departs from, likewise
  std::string report{};  // of a fault: the public report behind it
  std::string family{};  // of a fault: those that go wrong alike have one
  std::string stage{};   // of a fault: where it goes wrong
};

// The operations that kernels live here of.
std::vector<std::string_view> builtin_ops();
// Of an operation, the first where none is named, none of one that has no kernels here: builtin:NAME, the plain ones first; fault:NAME, in the order of the catalogue. Those of
// layer_norm begin with ln-, those of mha with mha-: builtin:ln-fused, fault:ln-tail.
std::vector<ListedSubject> builtin_subjects(std::string_view op = {});
std::vector<ListedSubject> fault_subjects(std::string_view op = {});
// The kernel of an operation that computes stage by stage: builtin:explicit, builtin:ln-explicit, builtin:mha-explicit.
std::string reference_subject(std::string_view op);
// The operation of a kernel that such a name stands for; empty if there is none.
std::string builtin_op(std::string_view name);

// The kernel `builtin:NAME` or `fault:NAME`, nullptr if there is none. It computes in `policy` if given, else in the policy
// named like the dtype of the call (f32, f16, bf16, f64), of which f32, f16 and bf16 are drawn.
// `semantics`: the JSON of a contract of its operation, whose meanings that policies do not tell (what a row without keys is, in
// which order softcap and bias come) it keeps in place of its own; empty: its own. Throws Error(usage) if that is none.
std::unique_ptr<SubjectFactory> builtin_subject(std::string_view name, const std::string& policy,
                                                const std::string& semantics = {});

}  // namespace attest

#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/policy.hpp"
#include "core/problem.hpp"
#include "engine/key.hpp"
#include "engine/ops.hpp"

namespace attest::engine {

// The options that mask keys in a problem: "none", or the names of their fields, as in "causal+keep+lengths".
std::string mask_class(const Problem& problem);

// The part of a bucket that describes the problem: the masks and the predicates, a word each.
std::vector<std::string> settings_of(const Problem& problem);

// The defect a minimal failing case stands for: key, subject, formats, mask class and the predicates that still hold on
// it ("batch+grouped+lq<lk+strided-k"). Never raw shapes or seeds. Parts are joined by ':'.
std::string bucket_of(const FailureKey& key, std::string_view subject, const Policy& policy, const Problem& minimal);

// A cheap stand-in for the bucket on a case that has not been shrunk: key, dtype, coarse shape class, forms, mask
// class, and what is peculiar of the scale and the softcap.
std::string signature_of(const FailureKey& key, const Problem& problem);

// The name a subject goes by in buckets, corpus files and folders: as on the command line, but "external:NAME" for a
// plug-in, script or model, whose path is nobody else's business and is never resolved from a file.
std::string portable_subject(std::string_view subject);

}  // namespace attest::engine

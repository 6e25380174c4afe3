#pragma once
#include <optional>
#include <string>

#include "engine/stream.hpp"

namespace attest::cli {

// --shard: "3/8"; or "8", one of so many, whose place the scheduler's environment says; or nothing, and both are the
// scheduler's, or there is one shard alone. Known are Slurm's arrays (SLURM_ARRAY_TASK_ID, _MIN, _COUNT, _STEP),
// Kubernetes' indexed jobs (JOB_COMPLETION_INDEX, which says no number: it is the option's), Open MPI
// (OMPI_COMM_WORLD_RANK, _SIZE) and PMI (PMI_RANK, PMI_SIZE). Throws Error(usage) with `origin`, where the text came
// from, for a text that is neither, and for an environment that says something else than the option or than itself.
engine::Shard read_shard(const std::optional<std::string>& text, const std::string& origin);

}  // namespace attest::cli

// Compiled for the least machine; holds nothing that other files could take for theirs.
#include "oracle/layer_norm/decide_loop_body.hpp"
#include "oracle/layer_norm/quick_loops_body.hpp"
#include "oracle/layer_norm/short_loop_body.hpp"

template struct attest::oracle::layer_norm::RowLoops<attest::oracle::Lanes>;

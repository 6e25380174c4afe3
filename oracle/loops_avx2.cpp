// Compiled for AVX2; holds nothing that other files could take for theirs.
#include "oracle/decode_loops.hpp"
#include "oracle/full_loops.hpp"
#include "oracle/products_loops.hpp"
#include "oracle/short_loops.hpp"

template struct attest::oracle::products::Loops<attest::oracle::Pack<double, 4>>;

// The loops for the instruction set that every machine has.
#include "oracle/decode_loops.hpp"
#include "oracle/full_loops.hpp"
#include "oracle/products_loops.hpp"
#include "oracle/short_loops.hpp"

template struct attest::oracle::products::Loops<attest::oracle::Lanes>;

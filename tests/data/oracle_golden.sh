#!/bin/sh
# Makes oracle_golden.txt from another implementation of the same bounds: sh oracle_golden.sh FOLDER, where FOLDER holds
# its core.hpp. The numbers are kept in the repository so that the tests do not need it.
set -e
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# An f16 exp that is off by exp_ulp is off by that many whole subnormals near zero; the other program allows 3/4 of one.
sed 's/1\.5\*0x1p-25/2*std::max(P.exp_ulp,.75)*0x1p-25/' "$1/core.hpp" > "$work/core.hpp"
cp "$here/oracle_golden.cpp" "$work"
${CXX:-g++} -std=gnu++20 -O1 -ffp-contract=off -w "$work/oracle_golden.cpp" -o "$work/golden"
"$work/golden" > "$here/oracle_golden.txt"

#!/bin/sh
# Makes statistical_golden.txt from another implementation of the same page: sh statistical_golden.sh FOLDER, where FOLDER
# holds its oracle.hpp and gen.hpp. The numbers are kept in the repository so that the tests do not need it.
set -e
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$1"/*.hpp "$here/statistical_golden.cpp" "$work"
# Groups of equal increments are counted exactly, not by a hash that may collide.
# A scale folded into q or k makes products of 16-bit numbers inexact, too.
# An unscaled score may underflow in the softmax format where 2^x is used.
# Weights below 1e-30 count too.
# s itself is printed, and the interval before it is cut to the rigorous one.
sed -e 's/hb\.assign(hs,0);/std::map<double,uint32_t> exact;/' \
  -e 's/uint64_t h=[^;]*; uint32_t&q=hb\[[^;]*;/uint32_t\&q=exact[std::floor(x\/w)];/' \
  -e 's/inexact_prod = !((P.store!=F32)&&P.acc==F32);/inexact_prod = P.store==F32||P.acc!=F32||(P.scale_pre\&\&P.sct==F32);/' \
  -e 's/ETA(P.sct)\/asc)/std::max(ETA(P.sct),P.exp2?ETA(P.sm):0.0)\/asc)/' \
  -e 's/if(pj<1e-30) continue;//' \
  -e 's/R.sig\[o\]=std::max(sig,std::max(yh-y,y-yl)\/lam);//' \
  -e 's/R.slo\[o\]=std::max(a,glo); R.shi\[o\]=std::min(b,ghi);/R.slo[o]=a; R.shi[o]=b;/' \
  "$1/oracle.hpp" > "$work/oracle.hpp"
for text in 'exact\[' 'P.scale_pre&&P.sct==F32' 'P.exp2?ETA(P.sm)' 'R.slo\[o\]=a;'; do grep -q "$text" "$work/oracle.hpp"; done
! grep -q 'sig,std::max(yh-y\|pj<1e-30' "$work/oracle.hpp"
${CXX:-g++} -std=gnu++20 -O1 -ffp-contract=off -w "$work/statistical_golden.cpp" -o "$work/golden"
"$work/golden" > "$here/statistical_golden.txt"

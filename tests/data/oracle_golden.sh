#!/bin/sh
# Makes oracle_golden.txt from another implementation of the same bounds: sh oracle_golden.sh FOLDER, where FOLDER holds
# its core.hpp. The numbers are kept in the repository so that the tests do not need it.
set -e
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# An f16 exp that is off by exp_ulp is off by that many whole subnormals near zero; the other program allows 3/4 of one.
# A sum of weights is at most as many times e^lazy as there are keys, but for what a wrong argument of exp adds.
largest_sum='std::exp(P.lazy)*std::min(L*std::exp(cl(G)),n*std::exp(cl(std::min(600.0,um*(a1+a2)*Zall)+(2+R)*ce*(1+ce))))'
# The logarithm of a sum near 1 is off by what the sum is.
# Scores are log2 e larger where exp2's factor is folded in with the scale, and a bias is rounded once it is multiplied by it.
l2='(P.exp2\&\&P.fold?1.4427:1)'
# With no lazy shift the largest weight is 1 before it is rounded, but for a shift computed apart from its score.
unit_weight='if(k.kind==0\&\&k.dx==0\&\&P.lazy==0\&\&uPw>0\&\&!W.lost){'
unit_weight=$unit_weight' double most=0,least=-INF,off=0,sure=INF;'
unit_weight=$unit_weight' for(int t=0;t<n;t++){ most+=hi[t]; least=std::max(least,z[t]-e[t]); }'
unit_weight=$unit_weight' for(int t=0;t<n;t++) if(z[t]+e[t]>=least){ sure=std::min(sure,lo[t]*std::fabs(v[t]));'
unit_weight=$unit_weight' off=std::max(off,d[t]-e[t]-(2+R)*ce*(1+ce)); }'
unit_weight=$unit_weight' off+=zmax+G-least+2*ce*(1+ce)+um+0x1p-50*Zm;'
unit_weight=$unit_weight' double top=k.t-uPw+std::min(uPw,(PB[P.p]<PB[P.sm]\&\&uo>0?3:1)*std::expm1(std::min(600.0,off)));'
unit_weight=$unit_weight' x-=(std::expm1(std::min(600.0,k.t*(1+uf)))-std::expm1(std::min(600.0,top*(1+uf))))*sure\/most; }'
sed -e "s/std::max(b,S1)/std::max(b,S1*$l2)/g" -e "s/std::fabs(a)\*as)/std::fabs(a)*as*$l2)/" \
  -e "s/P\.fold?mu:1/P.fold?std::max(1.0,as*$l2):1/g" \
  -e "s/std::fabs(s)+er\(+std::fabs(m)\)\?>=/(std::fabs(s)+er\1)*$l2>=/g" \
  -e "s/zz+=m;/zz+=m; if(P.exp2\&\&P.fold) er+=(us+ut)*std::fabs(m)+P.eta(P.score);/" \
  -e 's/0x1p-48\*(Zm+c)/&+4*(n+8)*0x1p-53/' \
  -e 's/1\.5\*0x1p-25/2*std::max(P.exp_ulp,.75)*0x1p-25/' -e "s/L\*std::exp(cl(P.lazy+G))/$largest_sum/" \
  -e "s/rad(std::min(mv,H\/sl),rho,0,x,g);/& $unit_weight/" \
  "$1/core.hpp" > "$work/core.hpp"
grep -qF "$largest_sum" "$work/core.hpp"
grep -qF 'sure=std::min(sure' "$work/core.hpp"
cp "$here/oracle_golden.cpp" "$work"
${CXX:-g++} -std=gnu++20 -O1 -ffp-contract=off -w "$work/oracle_golden.cpp" -o "$work/golden"
"$work/golden" > "$here/oracle_golden.txt"

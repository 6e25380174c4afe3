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
# Weights underflow in the softmax format, as results of exp and once they are normalised.
# Subnormals of q and k times a power of two are off by all of eta, or by nothing.
# A bias is rounded once it is multiplied by log2 e, where that is folded in with the scale.
# An exp that is off the same way wherever it rescales; the division and partial results underflow, too; and products that
# underflow do so alike where they are equal.
# Partial results of a split are rounded whole; and equal weights are ones, whose sum is exact, only at the maximum and
# while it is an integer of the format.
# Where weights may be anywhere in a box, a mean at its end has roundings of its own size.
# s itself is printed, and the interval before it is cut to the rigorous one.
underflow='{double w=p[j],e0=1.01*(P.sm==F16?2*std::max(P.exp_ulp,.75)*ETA(F16):FMIN(P.sm)),e1=ETA(P.sm);'\
'if(w>=(P.exp_ulp>1?0:e1\/64)) s2+=e0*e0\/L\/L*dv*dv\/3; if(w<2*e0) bias+=pb_*std::fabs(dv);'\
'if(P.norm_before){ if(pb_>=(P.div_ulp>.5?0:e1\/64)) s2+=e1*e1*v[j]*v[j]\/3; if(pb_<2*e1) bias+=pb_*std::fabs(v[j]); }}'
rescaled='{double most=0; for(int way=0;way<2;way++){ double top=-1e300,before=0,sum=0; for(int k=0;k<n;k++){ int t=way?n-1-k:k; '\
'if(z[t]>top){ top=z[t]; sum+=std::fabs(before); } before+=p[t]\/L*(v[t]-y); } most=std::max(most,sum); } s2+=ce*ce*most*most\/3; }'
blocks='double parts=0; for(int bs: {1,4,16,32,64,128,256,512}){ double q=0,b=0; for(int t=0;t<n;t++){ b+=p[t]\/L*v[t]; '\
'if((t+1)%bs==0||t==n-1){ q+=b*b; b=0; } } parts=std::max(parts,q); if(bs>=n) break; }'
far='r+=std::min(lam,1.0)*((prnd?up:0)+(n+Rs+2)*uv+(n+Rs)*um+3*cd*uf+(P.lse?U(P.partial):0))*std::max(std::fabs(yl),std::fabs(yh));'
sed -e 's/hb\.assign(hs,0);/std::map<double,uint32_t> exact;/' \
  -e 's/uint64_t h=[^;]*; uint32_t&q=hb\[[^;]*;/uint32_t\&q=exact[std::floor(x\/w)];/' \
  -e 's/inexact_prod = !((P.store!=F32)&&P.acc==F32);/inexact_prod = P.store==F32||P.acc!=F32||(P.scale_pre\&\&P.sct==F32);/' \
  -e 's/ETA(P.sct)\/asc)/std::max(ETA(P.sct),P.exp2?ETA(P.sm):0.0)\/asc)/' \
  -e "s/cov+=pb_\*(zmax-z\[j\])\*dv;/&$underflow/" \
  -e 's/ETA(P.sct)\*ETA(P.sct)\*q2s\/3/ETA(P.sct)*ETA(P.sct)*q2s/' \
  -e 's/+ETA(P.sct)\*ETA(P.sct)\*std::max(1.0,asc))\/3/+3*ETA(P.sct)*ETA(P.sct)*std::max(1.0,asc))\/3/' \
  -e 's/if(pj<1e-30) continue;//' \
  -e 's/,2\*uv\*mx\*L);/,2*std::max(uv*mx,ETA(P.pv))*L);/' \
  -e 's/n\*ETA(P.pv)\*ETA(P.pv);/n*ETA(P.pv)*ETA(P.pv)*cohV;/' \
  -e "s/s2+=(3\*cd\*cd\*uf\*uf)\/3\*y\*y;/& s2+=cd*cd*ETA(P.pv)*ETA(P.pv)+(P.lse?ETA(P.partial)*ETA(P.partial):0); $rescaled/" \
  -e "s/l1+= (P.lse? (U(P.partial)+2\*uf)\*u3\*std::sqrt(Q)/$blocks l1+= (P.lse? (U(P.partial)+2*uf)*u3*std::sqrt(parts)/" \
  -e 's/z\[ord\[n-1\]\]-z\[ord\[0\]\]==0)/z[ord[n-1]]==z[ord[0]]\&\&P.lazy==0\&\&!(P.exp2\&\&z[ord[0]]!=0)\&\&n*um<=1)/' \
  -e 's/zz+=m;/& if(P.exp2\&\&P.scale_pre) er+=(us+U(P.sct))*std::fabs(m)+ETA(P.score);/' \
  -e 's/R.sig\[o\]=std::max(sig,std::max(yh-y,y-yl)\/lam);//' \
  -e "s/a=yl-r; b=yh+r;/$far &/" \
  -e 's/R.slo\[o\]=std::max(a,glo); R.shi\[o\]=std::min(b,ghi);/R.slo[o]=a; R.shi[o]=b;/' \
  "$1/oracle.hpp" > "$work/oracle.hpp"
for text in 'q2s; // K scaled' '+3.ETA(P.sct)' 'e0=1.01' 'exact\[' 'P.scale_pre&&P.sct==F32' 'P.exp2?ETA(P.sm)' 'R.slo\[o\]=a;' 'er+=(us+U(P.sct))' 'uv\*mx,ETA' 'ETA(P.pv)\*cohV' 'ce\*ce\*most' 'sqrt(parts)' 'n\*um<=1' 'r+=std::min(lam'; do grep -q "$text" "$work/oracle.hpp"; done
! grep -q 'sig,std::max(yh-y\|pj<1e-30' "$work/oracle.hpp"
${CXX:-g++} -std=gnu++20 -O1 -ffp-contract=off -w "$work/statistical_golden.cpp" -o "$work/golden"
"$work/golden" > "$here/statistical_golden.txt"

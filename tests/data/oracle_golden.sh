#!/bin/sh
# Makes oracle_golden.txt from another implementation of the same bounds: sh oracle_golden.sh FOLDER, where FOLDER holds
# its core.hpp. The numbers are kept in the repository so that the tests do not need it.
set -e
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# An f16 exp that is off by exp_ulp is off by that many whole subnormals near zero; the other program allows 3/4 of one.
# A sum of weights is at most as many times e^lazy as there are keys, but for what a wrong argument of exp adds.
largest_sum='std::exp(P.lazy)*std::min(L*std::exp(cl(G)),n*std::exp(cl(std::min(600.0,um*aw*Zall)+(2+R)*le)))'
# The logarithm of a sum near 1 is off by what the sum is.
# Scores are log2 e larger where exp2's factor is folded in with the scale, and a bias is rounded once it is multiplied by it. The
# sum with a bias is stored again, be the bias 0.
l2='(P.exp2\&\&P.fold?1.4427:1)'
# With no lazy shift the largest weight is 1 before it is rounded, but for a shift computed apart from its score.
unit_weight='if(k.kind==0\&\&k.dx==0\&\&P.lazy==0\&\&uPw>0\&\&!W.lost){'
unit_weight=$unit_weight' double most=0,least=-INF,off=0,sure=INF;'
unit_weight=$unit_weight' for(int t=0;t<n;t++){ most+=hi[t]; least=std::max(least,z[t]-e[t]); }'
unit_weight=$unit_weight' for(int t=0;t<n;t++) if(z[t]+e[t]>=least){ sure=std::min(sure,lo[t]*std::fabs(v[t]));'
unit_weight=$unit_weight' off=std::max(off,d[t]-e[t]-(2+R)*le); }'
unit_weight=$unit_weight' off+=zmax+G-least+2*le+um+0x1p-50*Zm;'
unit_weight=$unit_weight' double top=k.t-uPw+std::min(uPw,(PB[P.p]<PB[P.sm]\&\&uo>0?3:1)*std::expm1(std::min(600.0,off)));'
unit_weight=$unit_weight' x-=(std::expm1(std::min(600.0,k.t*(1+uf)))-std::expm1(std::min(600.0,top*(1+uf))))*sure\/most; }'
# Near the ends of the range, or where it says more, rounding itself decides what the sum of score and bias is off by.
absorbed='bool smov=std::fabs(zz)+er>=OVF(P.sm); if(m!=0\&\&!P.exp2\&\&(er>=100||((ov||smov)\&\&!ov0))){'
absorbed=$absorbed' double f=0; const double r=e0+2*(D+8)*0x1p-53*(S1+std::fabs(s)+std::fabs(z0));'
absorbed=$absorbed' const auto tail=[](double a,double b){ double h=a+b,bb=h-a; return (a-(h-bb))+(b-bb); };'
absorbed=$absorbed' for(double t:{z0-r,z0+r}){ const double h=t+m,l=tail(t,m); f=std::max(f,std::fabs(h-zz)+std::fabs(l));'
absorbed=$absorbed' for(double y:{h,l==0?h:std::nextafter(h,l>0?INF:-INF)}) for(Fmt F:{P.score,P.sm})'
absorbed=$absorbed' if(y==h||F!=F64) f=std::max({f,std::fabs(rn0(F,y)-zz),std::fabs(rn0(P.sm,rn0(F,y))-zz)}); }'
absorbed=$absorbed' f+=2*std::fabs(tail(z0,m)); if(f<er||((ov||smov)\&\&f<INF)){ er=f; ov=ov0; smov=false; } }'
# An exp that is off by c multiplies its result by 1 - c at least, whose logarithm is -ln(1 - c) off. Without exp2, and without
# weights exp(lse_i - lse), the largest weight is 1.
# A q or k that carries the scale is rounded to the operand's format as it enters the product. Into the scale's own format a score
# is rounded four times, or as often as the root of a rounded scale, inputs and log2 e brought there and their products make it.
# What truncates loses a whole step among subnormals.
factors='const int in=PB[P.sct]<PB[P.store]; const bool root=P.fold\&\&sg>0;'
factors=$factors' const double es=E(std::max(4,(root?5+2*in:2+in)+(P.exp2\&\&PB[P.sct]<PB[P.sm]?2:0)),ut);'
factors=$factors' const auto sums=[\&](Fmt F){ return std::max(P.eta(F),P.kappa*SUBH(F)); };'
factors=$factors' int g; const bool pw=std::frexp(as,\&g)==.5\&\&(!root||std::frexp(std::sqrt(as),\&g)==.5);'
factors=$factors' const bool enters=P.fold\&\&!(PB[P.opd]<PB[P.store])\&\&(PB[P.opd]<PB[P.sct]||EMIN[P.opd]>EMIN[P.sct]);'
factors=$factors' const double ue=enters\&\&PB[P.opd]<PB[P.sct]?U(P.opd):0,Se=P.exp2||!pw?E(root?2:1,ue):0; const bool opn='
entering='if(sg!=0){ const double Sc='
entering=$entering'enters?Se*S1+P.eta(P.opd)*std::max(1.0,std::sqrt(as))*(1+ue)*(K1+Q1+D*P.eta(P.opd)):0;'
# A rescaling that should leave nothing leaves a subnormal number of weights that a wrong shift made too large, but not infinite.
rescaled='const double resc=std::max(eps0*std::exp(P.lazy),1.01*2*std::max(P.exp_ulp,.75)*SUBH(P.sm)'
rescaled=$rescaled'*std::min(OVF(P.sm),std::exp(P.lazy+std::min(um*aw*Zall+(1+R)*ce,700.))));'
sed -e "s/const bool opn=/$factors/" -e 's/E(D+4,ua)/((1+E(D,ua))*(1+es)*(1+E(2,uo))*(1+Se)-1)/g' -e 's/E(4,ut)/es/' \
  -e "s/P\.eta(P\.acc)/sums(P.acc)/g" -e "s/P\.eta(P\.pv)/sums(P.pv)/g" -e 's/P\.eta(pvn?P\.pv:P\.sm)/(pvn?sums(P.pv):P.eta(P.sm))/' \
  -e "s/std::max(b,S1)/std::max(b,S1*$l2)/g" -e "s/std::fabs(a)\*as)/std::fabs(a)*as*$l2)/" \
  -e "s/P\.fold?mu:1/P.fold?std::max(1.0,as*$l2):1/g" \
  -e "s/std::fabs(s)+er\(+std::fabs(m)\)\?>=/(std::fabs(s)+er\1)*$l2>=/g" \
  -e "s/zz+=m;/zz+=m; if(m!=0\&\&P.exp2\&\&P.fold) er+=(us+(PB[P.sct]<PB[P.sm]?1:3)*ut)*std::fabs(m)+P.eta(P.score);/" \
  -e 's/0x1p-48\*(Zm+c)/&+4*(n+8)*0x1p-53/' \
  -e 's/1\.5\*0x1p-25/2*std::max(P.exp_ulp,.75)*0x1p-25/' -e "s/L\*std::exp(cl(P.lazy+G))/$largest_sum/" \
  -e "s/rad(std::min(mv,H\/sl),rho,0,x,g);/& $unit_weight/" \
  -e "s/if(sg!=0){/$entering/" -e 's/er=E(2,uo)\*S1+P\.eta/er=Sc+E(2,uo)*S1+P.eta/' \
  -e 's/else er=E(D,ua)\*S1+/else er=Sc+E(D,ua)*(S1+Sc)+/' \
  -e 's/infbias=false/&,bias=false/' \
  -e "s/if(m!=0){/const double z0=zz,e0=er; const bool ov0=ov; if(pb.bias){/" \
  -e "s/if((FX&X_SMLOST)&&std::fabs(zz)+er>=OVF(P.sm))/$absorbed if(smov)/" \
  -e 's/(2\*P\.tanh_ulp+2)\*uc/((1+2*P.tanh_ulp*uc)*(1+uc)*(1+uc)-1)/g' -e 's/+4\*uc\*(std/+E(4,uc)*(std/' \
  -e 's/P\.eta(P\.cap)\*2\*(1+c)/&+(P.tanh_abs?0:2*P.tanh_ulp*SUBH(P.cap)*c)/' \
  -e 's/ce=2\*P\.exp_ulp\*um/&,le=-std::log1p(-2*P.exp_ulp*um)/' -e 's/ce\*(1+ce)/le/g' \
  -e 's/(3+R)\*le/&+2*cd*um/' -e 's/ln+1)+ce)/ln+1)+le)/g' -e 's/double a1=e2/double aw,a1=e2/' \
  -e 's/a2+=3\.0\*(P\.smax-1);/& aw=a1+(P.mlse\&\&lse?a2:e2?2:0);/' -e 's/um\*(a1+a2)/um*aw/g' \
  -e "s/double aL0=/$rescaled &/" -e 's/2\.2\*n\*mv\*eps1/2.2*n*mv*std::max(eps1,resc)/' -e 's/3\*n\*eps0\*/3*n*resc*/g' -e 's/eps1=std::max/eps1=std::exp(P.lazy)*std::max/' \
  -e 's/(n-1+R)\*um\*kl/(n-1+R)*(kl>1?-std::log1p(-kl*um):um)/' \
  "$1/core.hpp" > "$work/powers.hpp"
# Sums that round to nearest lose n u of their magnitude, no power of it; what underflows is rounded with the rest; and the logarithm of
# a sum is off by what its exponent says. Scores that are all 0 move no running maximum.
sum='(P.kappa>1?E(D,ua):D*ua*(1+ua))'
sed -e "s/E(D,ua)/$sum/g" -e "s/\*D\*sums(P\.acc)\*mu/&*(1+$sum)/g" -e "s/+D\*sums(P\.acc)\*mu/&*(1+$sum)/g" \
  -e 's/(n+Rp+2)\*uv/((P.kappa>1?n*uv:std::log1p(n*uv))+(Rp+2)*uv)/g' \
  -e 's/(n-1+R)\*(kl>1?-std::log1p(-kl\*um):um)/((kl>1?(1-n)*std::log1p(-kl*um):std::log1p((n-1)*um))+R*(kl>1?-std::log1p(-kl*um):um))/' \
  -e 's/\*A+ab+4/*A+ab*std::exp(std::min(600.0,k.t*(1+uf)))+4/' -e 's/std::expm1(std::min(600.0,aLl\*(1+um)))/aLl*(1+um)/' \
  -e 's/int R=std::min(n,/int R=sg==0\&\&!pb.bias\&\&!(pb.cap>0)?0:std::min(n,/' "$work/powers.hpp" > "$work/core.hpp"
grep -qF "$largest_sum" "$work/core.hpp"
for changed in 'if(pb.bias)' 'sure=std::min(sure' 'bool smov=' 'bool ov0=' 'E(4,uc)' 'SUBH(P.cap)*c' 'le=-std::log1p' '(3+R)*le+2' 'aw=a1+' 'um*aw*Zm>80' \
  'log1p(-kl' 'n*resc*rh;' 'double resc=' 'max(eps1,resc)' 'eps1=std::exp' 'double Sc=' 'er=Sc+E(2,uo)' 'er=Sc+E(D,ua)' '(1+es)*' '(es+' 'D*sums(P.acc)' '6)*sums(P.pv)' '(pvn?sums'; do
  grep -qF "$changed" "$work/powers.hpp" || { echo "oracle_golden.sh: core.hpp has no place for $changed" >&2; exit 1; }
done
for changed in "er=Sc+$sum" "mu*(1+$sum)" '?n*uv:' '(1-n)*std::log1p' 'ab*std::exp' 'std::log1p((n-1)*um)' '0+aLl*' '?0:std::min(n,'; do
  grep -qF "$changed" "$work/core.hpp" || { echo "oracle_golden.sh: core.hpp has no place for $changed" >&2; exit 1; }
done
cp "$here/oracle_golden.cpp" "$work"
${CXX:-g++} -std=gnu++20 -O1 -ffp-contract=off -w "$work/oracle_golden.cpp" -o "$work/golden"
"$work/golden" > "$here/oracle_golden.txt"

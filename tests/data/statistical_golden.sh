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
# The sum with a bias is stored again, be the bias 0.
# An exp that is off the same way wherever it rescales; the division and partial results underflow, too; and products that
# underflow do so alike where they are equal.
# Partial results of a split are rounded whole; and equal weights are ones, whose sum is exact, only at the maximum and
# while it is an integer of the format.
# Where weights may be anywhere in a box, a mean at its end has roundings of its own size.
# Sums run from either end, whole and in interleaved lanes, and so do those of q.k.
# Quotients round one by one where weights are normalised first. The rounded scale, its root and log2 e with it are numbers that
# all keys share, and so is the log2 e that a bias is brought to. A score is brought to the scale's format before it is multiplied. An exp may be off one way. One that is off by a whole ulp makes a subnormal of nothing.
# s itself is printed, and the interval before it is cut to the rigorous one.
# Errors of keys whose scores are as good as equal are independent or alike: the larger of the two variances, not both.
# A division that may be off by more than half an ulp errs by all of it, and so do those that underflow and those of merges.
# A scaled and a stored score are off by up to eta among subnormals, and by all of themselves where they become 0.
# A q or k that carries the scale is rounded to the operand's format, that of storage, as it enters the product.
# Numbers that round among the subnormals of their format are alike in bins of their own, where its ulp is more: weights, results of exp, quotients.
# Weights whose scores lie on a grid of coarse steps round alike, up to half a step.
# Weights of one bin that lie about a midpoint of two numbers of their format are off by half an ulp each; so are quotients.
midpoint='auto mid=[\&](int f,int l,double u,double eta,double size){ if(l-f<2) return 1.; double a=p[ord[f]]*size,b=p[ord[l-1]]*size,m=(a+b)\/2; if(!(a>0)) return 1.; '\
'double ulp=2*std::max(u*std::exp2(std::floor(std::log2(m))),eta),most=0; for(int t=f;t<l;t++) most=std::max(most,tau[ord[t]]+tau1[ord[t]]); '\
'double reach=(b-a)\/2+b*(4*most+2*(ce+(std::sqrt((double)n+Rs)+2)*um)),x=m\/ulp-std::floor(m\/ulp)-.5; return reach<ulp\/4\&\&std::fabs(x)*ulp<=reach?3.:1.; };'
entering='int fe; const bool root=sc>0,two=std::frexp(asc,\&fe)==.5\&\&(!root||std::frexp(std::sqrt(asc),\&fe)==.5); '\
'const bool enters=P.scale_pre\&\&asc>0\&\&U(P.store)>U(P.sct); const double Ru=enters\&\&(P.exp2||!two)?U(P.store):0, '\
'Re=enters?ETA(P.store)*std::max(1.0,std::sqrt(asc))*(1+U(P.store)):0;'
# A rescaling that should leave nothing leaves a subnormal number of weights that a wrong shift made too large, but not infinite;
# an exp that is off by a whole ulp makes such numbers of nothing, to one side. So do poor divisions, beyond a rounding. Where the
# largest weight may come out small, underflows count for more.
lifted='double zall=0; for(int t=0;t<n;t++) zall=std::max(zall,std::fabs(z[t])+e[t]); '\
'const double off=2*um*Zm,short_=off<.01?1:std::exp(off), e0=short_*1.01*std::exp(P.lazy)*(P.sm==F16?2*std::max(P.exp_ulp,.75)*ETA(F16):FMIN(P.sm)), '\
'resc=std::max(e0,short_*1.01*2*std::max(P.exp_ulp,.75)*ETA(P.sm)*std::min((double)OVF(P.sm),std::exp(P.lazy+(P.exp2?4*um:0)*zall+n*ce))); '\
'auto one_side=[\&](auto f){ double all=0,low=0; for(int t=0;t<n;t++) all+=f(t); double most=std::fabs(all); '\
'for(int t=0;t<n;t++){ int j=ord[t]; low+=f(j); if(t==n-1||z[ord[t+1]]!=z[j]) most=std::max(most,std::fabs(all-2*low)); } return most; }; '\
'std::vector<double> round_(n); auto by_bin=[\&](double eta,double size,auto f,auto more){ auto wide=[\&](int j){ double x=p[j]*size; return x>0?std::max(bw,eta\/x\/2):bw; }; '\
'int first=0; double sum=0,squares=0; for(int t=0;t<=n;t++){ if(t==n||z[ord[t]]-z[ord[first]]>wide(ord[first])){ s2+=std::max(squares,sum*sum)*more(first,t); first=t; sum=squares=0; '\
'if(t==n) break; } double x=f(ord[t]); sum+=x; squares+=x*x; } }; auto plain=[](int,int){ return 1.; };'
underflow='{double w=p[j],e1=ETA(P.sm);'\
'if(w<2*e0) bias+=pb_*std::fabs(dv);'\
'if(P.norm_before\&\&pb_<2*e1) bias+=pb_*std::fabs(v[j]);}'
rescaled='{double most=0; for(int way=0;way<2;way++){ double top=-1e300,before=0,sum=0; for(int k=0;k<n;k++){ int t=way?n-1-k:k; '\
'if(z[t]>top){ top=z[t]; sum+=std::fabs(before); } before+=p[t]\/L*(v[t]-y); } most=std::max(most,sum); } s2+=ce*ce*most*most\/3; }'
blocks='double parts=0; for(int bs: {1,4,16,32,64,128,256,512}){ double q=0,b=0; for(int t=0;t<n;t++){ b+=p[t]\/L*v[t]; '\
'if((t+1)%bs==0||t==n-1){ q+=b*b; b=0; } } parts=std::max(parts,q); if(bs>=n) break; }'
lanes='auto lanes=[\&](int m,auto f){ std::pair<double,double> best{0,0}; for(int w=1;w==1||w<m;w*=2) for(int back=0;back<2;back++){ double q=0; '\
'for(int l=0;l<w;l++){ double r=0; for(int t=l;t<m;t+=w){ r+=f(back?m-1-t:t); q+=r*r; best.second=std::max(best.second,std::fabs(r)); } } '\
'best.first=std::max(best.first,q); } return best; };'
ordered='{ auto sums=lanes(n,[\&](int t){ return p[t]\/L*v[t]; }); pre2=sums.first; mx=sums.second; '\
'preL2=lanes(n,[\&](int t){ return p[t]\/L; }).first; }'
products='lanes(D,[\&](int c){ return (double)pb.Q[(size_t)i*D+c]*pb.K[(size_t)idx[t]*D+c]*sc; }).first'
one_way='bias+=std::max(0.0,2*P.exp_ulp-1)*um*one_side([\&](int t){ return p[t]\/L*(v[t]-y); }); '\
'if(P.exp_ulp>=1) bias+=one_side([\&](int t){ return p[t]<2*e0?resc\/L*(v[t]-y):0.; }); '\
'if(cd>1){ bias+=(cd-1)*ETA(P.pv); if(P.norm_before) bias+=(cd-1)*one_side([\&](int t){ return um*p[t]\/L*v[t]+ETA(P.sm)*v[t]; }); }'
factors='{ double a=0,b=0; for(int t=0;t<n;t++){ double x=p[t]\/L*(v[t]-y); a+=x*s[t]; if(!pb.mask.empty()) b+=x*pb.mask[(size_t)i*Lk+idx[t]]; } '\
'double k=((P.scale_pre\&\&sc>0?3:1)+(P.exp2\&\&U(P.sct)>um?2:0))*usc*a; s2+=k*k\/3; { double g=std::min(1.0,std::max(ETA(P.sct),P.exp2?ETA(P.sm):0.)\/asc); if(g>usc) s2+=g*g*a*a; } if(P.exp2\&\&P.scale_pre) s2+=usc*usc*b*b\/3; }'
quotients='s2+=step*step; if(prnd) by_bin(ETA(P.p)*short_,P.norm_before?1\/L:1.,[\&](int j){ return round_[j]; },[\&](int f,int l){ return mid(f,l,up,ETA(P.p),P.norm_before?1\/L:1.); }); '\
'{ double e1=ETA(P.sm); by_bin(resc,1.,[\&](int j){ return p[j]>=(P.exp_ulp>=1?0:e1\/64)?resc\/L*(v[j]-y)*u3:0.; },plain); '\
'if(P.norm_before){ by_bin(e1,1\/L,[\&](int j){ return p[j]\/L*v[j]*cd*um*(cd>1?1:u3); },[\&](int f,int l){ return cd>1?1.:mid(f,l,um,e1,1\/L); }); '\
'by_bin(e1,1\/L,[\&](int j){ return p[j]\/L>=(P.div_ulp>.5?0:e1\/64)?e1*std::max(1.0,2*P.div_ulp)*v[j]*(P.div_ulp>.5?1:u3):0.; },plain); } }'
brought='if(P.exp2\&\&P.scale_pre\&\&!pb.mask.empty()){ double m=pb.mask[(size_t)i*Lk+idx[t]]; va+=(us*us+usc*usc)*m*m\/3; }'
far='r+=std::min(lam,1.0)*((prnd?up:0)+(n+Rs+2)*uv+(n+Rs)*um+3*cd*uf+(P.lse?U(P.partial):0)+(P.norm_before?cd*um:0))*std::max(std::fabs(yl),std::fabs(yh));'
sed -e 's/hb\.assign(hs,0);/std::map<double,uint32_t> exact;/' \
  -e 's/uint64_t h=[^;]*; uint32_t&q=hb\[[^;]*;/uint32_t\&q=exact[std::floor(x\/w)];/' \
  -e 's/inexact_prod = !((P.store!=F32)&&P.acc==F32);/inexact_prod = P.store==F32||P.acc!=F32||(P.scale_pre\&\&P.sct==F32);/' \
  -e 's/ETA(P.sct)\/asc)/std::max(ETA(P.sct),P.exp2?ETA(P.sm):0.0)\/asc)/' \
  -e "s/cov+=pb_\*(zmax-z\[j\])\*dv;/&$underflow/" \
  -e 's/ETA(P.sct)\*ETA(P.sct)\*q2s\/3/ETA(P.sct)*ETA(P.sct)*q2s/' \
  -e 's/+ETA(P.sct)\*ETA(P.sct)\*std::max(1.0,asc))\/3/+3*ETA(P.sct)*ETA(P.sct)*std::max(1.0,asc))\/3/' \
  -e "s/idx\.clear(); for/$entering &/" \
  -e 's/double er=E(C(D),ua)\*S1\[t\]/const double Sc=E(root?2:1,Ru)*S1[t]+Re*(K1[t]+Qs1+D*ETA(P.store)); double er=Sc+E(C(D),ua)*(S1[t]+Sc)/' \
  -e 's/va += us\*us\/3\*s\[t\]\*s\[t\] + usc\*usc/va += us*us\/3*s[t]*s[t] + (usc>U(P.acc)?2:1)*usc*usc/' \
  -e 's/va += us\*us\/3/{ double a=std::fabs(s[t]); if(us*a<ETA(P.score)) va+=std::pow(std::min(ETA(P.score),a),2); if(usc*a<ETA(P.sct)) va+=std::pow(std::min(ETA(P.sct),a),2); } &/' \
  -e 's/E(P.nsc,usc)/E(std::max(4,(P.scale_pre\&\&sc>0?5+2*(usc>U(P.store)):2+(usc>U(P.store)))+(P.exp2\&\&usc>um?2:0)),usc)/' \
  -e 's/if(P.scale_pre) va+=/&Ru*Ru*Q2[t]\/3+Re*Re*q2s+/' \
  -e 's/tau1\[t\]=(P.scale_pre? /&Ru*std::sqrt(Q2[t]\/3)+Re*std::sqrt(K2[t]\/3)+/' \
  -e 's/q+=c\*c\*(2\*a\*a+/q+=c*c*(Ru*Ru*std::pow(pb.Q[(size_t)i*D+d1]*sc,2)+3*Re*Re+2*a*a+/' \
  -e 's/if(pj<1e-30) continue;//' \
  -e 's/if(cnt>1) s2+=acc\*acc+ (prnd? accP\*accP: 0); s2+=acc2+accP2;/s2+=std::max(acc*acc,acc2);/' \
  -e 's/accP+=pa\*v\[j\]\*rP; accP2+=pa\*v\[j\]\*rP\*pa\*v\[j\]\*rP;/round_[j]=pa*v[j]*rP; step+=pa*v[j]*std::min(rP,(um*std::fabs(z[j])+us*std::max(std::fabs(z[j]),std::fabs(s[j])))*u3);/' \
  -e 's/,2\*uv\*mx\*L);/,2*std::max(uv*mx,ETA(P.pv))*L);/' \
  -e 's/n\*ETA(P.pv)\*ETA(P.pv);/n*ETA(P.pv)*ETA(P.pv)*cohV;/' \
  -e "s/s2+=(3\*cd\*cd\*uf\*uf)\/3\*y\*y;/& s2+=cd*cd*ETA(P.pv)*ETA(P.pv)+(P.lse?ETA(P.partial)*ETA(P.partial):0); $rescaled/" \
  -e "s/l1+= (P.lse? (U(P.partial)+2\*uf)\*u3\*std::sqrt(Q)/$blocks l1+= (P.lse? (U(P.partial)+2*cd*uf)*(cd>1?1:u3)*std::sqrt(parts)/" \
  -e 's/z\[ord\[n-1\]\]-z\[ord\[0\]\]==0)/z[ord[n-1]]==z[ord[0]]\&\&P.lazy==0\&\&!(P.exp2\&\&z[ord[0]]!=0)\&\&n*um<=1)/' \
  -e 's/if(m!=0){ zz/{ zz/' \
  -e 's/zz+=m;/& if(m!=0\&\&P.exp2\&\&P.scale_pre) er+=(us+(usc>um?1:3)*usc)*std::fabs(m)+ETA(P.score);/' \
  -e 's/R.sig\[o\]=std::max(sig,std::max(yh-y,y-yl)\/lam);//' \
  -e "s/int fr=0,br=0;/$lanes &/" \
  -e "s/((D+1)\*(Q2\[t\]\/6+s\[t\]\*s\[t\]\/3)+/(std::max((D+1)*(Q2[t]\/6+s[t]*s[t]\/3),$products)+/" \
  -e "s/tau\[t\]=std::sqrt(va);/$brought &/" \
  -e "s/preL2+=preL\*preL; }/& $ordered/" \
  -e "s/l1+=std::fabs(cov)\*3\*um;/& $one_way $factors $quotients/" \
  -e "s/a=yl-r; b=yh+r;/$far &/" -e "s/double s2=0,l1=0,bias=0;/& double step=0; $lifted $midpoint/" \
  -e 's/R.slo\[o\]=std::max(a,glo); R.shi\[o\]=std::min(b,ghi);/R.slo[o]=a; R.shi[o]=b;/' \
  "$1/oracle.hpp" > "$work/oracle.hpp"
for text in 'q2s; // K scaled' '+3.ETA(P.sct)' 'e0=short_\*1.01' 'resc\/L\*(v' 'one_side(\[&\]' 'exact\[' 'P.scale_pre&&P.sct==F32' 'P.exp2?ETA(P.sm)' 'R.slo\[o\]=a;' 'er+=(us+(usc' '{ zz+=m; if(m!=0' 'uv\*mx,ETA' 'ETA(P.pv)\*cohV' 'ce\*ce\*most' 'sqrt(parts)' 'n\*um<=1' 'r+=std::min(lam' 'exp_ulp>=1' 'auto lanes' 'std::max((D+1)' 'va+=(us' 'pre2=sums' 'all-2' 'usc\*usc\*b' 'cd\*um\*(cd>1' 'const bool enters' 'const double Sc' 'va+=Ru' '? Ru\*std' 'c\*c\*(Ru' 'max(acc\*acc' 'auto mid' 'auto by_bin' 'round_\[j\]=pa' 'mid(f,l,um' 'min(ETA(P.score),a)'; do grep -q "$text" "$work/oracle.hpp"; done
! grep -q 'sig,std::max(yh-y\|pj<1e-30' "$work/oracle.hpp"
${CXX:-g++} -std=gnu++20 -O1 -ffp-contract=off -w "$work/statistical_golden.cpp" -o "$work/golden"
"$work/golden" > "$here/statistical_golden.txt"

#!/usr/bin/env bash
# run.sh BUILD_FOLDER SECONDS [NAME...]: runs the fuzz programs one at a time, each for so long, and prints what they reached.
# Inputs that add coverage stay in BUILD_FOLDER/corpus/NAME; a finding stays in BUILD_FOLDER/findings and the status is 1.
set -euo pipefail

if (($# < 2)) || [[ ! -d $1/bin || ! $2 =~ ^[1-9][0-9]*$ ]]; then
  sed -n '2,3s/^# //p' "$0" >&2
  exit 2
fi
build=$(cd "$1" && pwd) seconds=$2
shift 2
here=$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
if (($# == 0)); then set -- $(cd "$here" && printf '%s\n' *.cpp | sed 's/\.cpp$//'); fi

status=0
mkdir -p "$build/findings"
printf '%-16s %12s %6s %6s %8s  %s\n' target executions cov ft cpu_s result
for name in "$@"; do
  mkdir -p "$build/corpus/$name"
  log=$build/findings/$name.log
  options=(-max_total_time="$seconds" -rss_limit_mb=2048 -malloc_limit_mb=512 -timeout=5 -print_final_stats=1
    -artifact_prefix="$build/findings/$name-")
  if [[ -e $here/dictionaries/$name.dict ]]; then options+=(-dict="$here/dictionaries/$name.dict"); fi
  seeds=("$here/corpus/$name")
  if [[ -d $here/regressions/$name ]]; then seeds+=("$here/regressions/$name"); fi
  result=clean
  TIMEFORMAT='cpu %U'
  { time "$build/bin/fuzz_$name" "${options[@]}" "$build/corpus/$name" "${seeds[@]}"; } >"$log" 2>&1 ||
    { result="FINDING, see $log"; status=1; }
  last=$(grep -aoE 'cov: [0-9]+ ft: [0-9]+' "$log" | tail -n 1) || true
  read -r _ cov _ ft <<<"${last:-cov: 0 ft: 0}"
  printf '%-16s %12s %6s %6s %8s  %s\n' "$name" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
    "$cov" "$ft" "$(sed -n 's/^cpu //p' "$log")" "$result"
done
exit $status

#!/bin/sh
# Makes oracle_golden.txt from another implementation of the same bounds: sh oracle_golden.sh FOLDER, where FOLDER holds
# its core.hpp. The numbers are kept in the repository so that the tests do not need it.
set -e
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
${CXX:-g++} -std=gnu++20 -O1 -ffp-contract=off -w -I "$1" "$here/oracle_golden.cpp" -o "$work/golden"
"$work/golden" > "$here/oracle_golden.txt"

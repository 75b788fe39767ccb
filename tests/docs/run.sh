#!/bin/bash
# The docs against the tree and the command: no dead link, no mention of a page that is not there, every verb, limit and decision listed.
#   run.sh VSHMEM [--write]     --write: docs/reference/commands.md is made anew
# Ends with `N passed, N failed`.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$1
passed=0 failed=0
check() { # check NAME: what is wrong comes in by standard input, a line each
	local wrong
	wrong=$(cat)
	if [ -z "$wrong" ]; then
		passed=$((passed + 1)); echo "ok: $1"
	else
		failed=$((failed + 1)); echo "FAILED: $1"; echo "$wrong"
	fi
}

if [ "$2" = --write ]; then
	tests/docs/commands "$vshmem" >docs/reference/commands.md
fi

# In a tree without git (a released archive) the pages are those that there are.
files() { git ls-files -- "$@" 2>/dev/null | grep . || find . -path ./target -prune -o -path ./build -prune -o -type f -name "${1#\*}" -print; }

files '*.md' | perl tests/docs/links.pl | check "links between pages, and to headings"

git grep -noIE 'docs/[a-z]+[a-z/_-]*/?[0-9a-z_.-]*' -- . ':!*.md' 2>/dev/null | grep -E ':docs/(guide|reference|internals|results|glossary|decisions)|:docs/[a-z-]+\.md' |
	grep -vE ':docs/(pmem|ivshmem|device_model)\.md' | while IFS=: read -r file line page; do
	page=${page%.}
	[ -e "$page" ] || compgen -G "$page*" >/dev/null || echo "$file:$line: $page"
done | check "pages that the sources mention"

tests/docs/commands "$vshmem" | diff docs/reference/commands.md - | head -40 |
	check "docs/reference/commands.md is what --help prints (tests/docs/run.sh VSHMEM --write)"

"$vshmem" pool create docs-check --size 64M --limit none-of-these=1 2>&1 | sed -n 's/.*there are //p' | tr ' ' '\n' | while read -r limit; do
	grep -q "^| \`$limit\`" docs/reference/limits.md 2>/dev/null || echo "$limit is missing"
done | check "every limit stands in docs/reference/limits.md"

for decision in docs/internals/decisions/[0-9]*.md; do
	grep -q '^Date: 20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]\. Status: ' "$decision" || echo "$decision has no line 'Date: ... Status: ...'"
	grep -q "(${decision##*/})" docs/internals/decisions/README.md 2>/dev/null || echo "$decision is not in the index"
done | check "decisions have date and status, and are in the index"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]

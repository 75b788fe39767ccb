#!/bin/bash
# Every test binary of the crates' own, of those that cargo built: tests/unit.sh MESSAGES, a file of cargo's messages as JSON. What boots
# guests or takes long has steps of its own. Each runs where cargo would run it.
messages=$1 status=0
programs=$(sed -n 's,.*"manifest_path":"\([^"]*\)/Cargo.toml".*"test":true.*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*,\1 \2,p' "$messages" |
	grep -vE '/tests/(acceptance|soak) |/tools/lab .*/(guests|qemu|xen)-[0-9a-f]*$')
[ -n "$programs" ] || { echo "FAILED: $messages names no test binary"; exit 1; }
while read -r folder program; do
	(cd "$folder" && "$program" --quiet) || status=1
done <<<"$programs"
exit $status

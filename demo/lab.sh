# What the demos with other people's programs share: `. demo/lab.sh` with `name` set, and the demo's arguments: VSHMEM [--quick].
# They run in a lab of three User Mode Linux guests on one pool: the one that DEMO_LAB names (demo/all boots it), or their own.
here=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
vshmem=$1 quick=
[ "${2:-}" != --quick ] || quick=yes
# Programs that scripts/setup unpacks and does not install, because Debian's packages would start a service.
unpacked=${VSHMEM_DEMOS:-/var/lib/vshmem/demos}
with_unpacked="env PATH=/run/vshmem/bin:$unpacked/usr/sbin:$unpacked/usr/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
with_unpacked="$with_unpacked LD_LIBRARY_PATH=$unpacked/usr/lib/$(uname -m)-linux-gnu:$unpacked/lib/$(uname -m)-linux-gnu"
own= own_lab= started= lab=${DEMO_LAB:-} passed=0 failed=0
exec </dev/null

# One line for tests/run, which counts it as skipped.
skip() { echo "SKIPPED: demo $name: $*"; echo "1 passed, 0 failed"; exit 0; }

[ -x "$vshmem" ] || { echo "usage: $0 VSHMEM [--quick]; VSHMEM is target/release/vshmem after \`make build\`" >&2; exit 2; }
case $vshmem in /*) ;; *) vshmem=$PWD/$vshmem ;; esac

needs() { # needs COMMAND PACKAGE
	$with_unpacked sh -c 'command -v "$1"' sh "$1" >/dev/null || skip "no $1 here (Debian's package $2; scripts/setup demos)"
}

open_lab() {
	own=$(mktemp -d "/var/tmp/demo-$name.XXXXXX") || exit 1
	trap close_lab EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	[ -z "$lab" ] || return 0
	lab=demo-$name-$$
	own_lab=yes
	"$vshmem" lab --name "$lab" up --guest uml -n 3 >"$own/lab.log" 2>&1 || skip "no guests of User Mode Linux: $(tail -1 "$own/lab.log")"
}

# A lab that was interrupted while it booted leaves its pool.
lab_down() {
	"$vshmem" lab --name "$lab" down >/dev/null 2>&1
	[ ! -e "/dev/shm/vshmem.$lab" ] || "$vshmem" pool rm "$lab" --force >/dev/null 2>&1
}

close_lab() {
	status=$?
	trap - EXIT
	for one in $started; do kill "$one" 2>/dev/null; done
	wait
	[ -z "$own_lab" ] || lab_down
	rm -rf "$own"
	exit $status
}

# guest N COMMAND...: a command in guest N, and its status.
guest() {
	number=$1
	shift
	timeout -k 5 300 "$vshmem" lab --name "$lab" exec "$number" -- "$@"
}

# start N TITLE COMMAND...: the same in the background. Its output goes to $own/TITLE, its process id in the guest to /tmp/TITLE.pid.
start() {
	number=$1 title=$2
	shift 2
	timeout -k 5 600 "$vshmem" lab --name "$lab" exec "$number" -- \
		sh -c 'echo $$ >"/tmp/$1.pid"; shift; exec "$@"' sh "$title" "$@" >"$own/$title" 2>&1 &
	started="$started $!"
	eval "job_$title=$!"
}

# stop N TITLE SIGNAL: ends what `start` began, and waits until it has ended.
stop() {
	guest "$1" sh -c 'kill -"$2" "$(cat "/tmp/$1.pid")"' sh "$2" "$3" 2>/dev/null
	eval "wait \$job_$2"
}

says() { grep -q "$2" "$own/$1" 2>/dev/null; } # says TITLE PATTERN

# until_true SECONDS COMMAND...: a state that is waited for. The bounds here end what has failed; a busy machine keeps them.
until_true() {
	turns=$(($1 * 5))
	shift
	until "$@" >/dev/null 2>&1; do
		turns=$((turns - 1))
		[ $turns -gt 0 ] || return 1
		sleep 0.2
	done
}

check() { # check WHAT COMMAND...
	what=$1
	shift
	if "$@"; then
		passed=$((passed + 1)); echo "ok: $what"
	else
		failed=$((failed + 1)); echo "FAILED: $what"
		# Those with a dot are no logs.
		for log in "$own"/*; do
			case ${log##*/} in *.*) ;; *) [ -d "$log" ] || tail -v -n 15 "$log" ;; esac
		done
	fi
}

finish() {
	echo "$passed passed, $failed failed"
	[ $failed = 0 ]
}

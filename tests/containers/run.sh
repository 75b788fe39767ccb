#!/bin/bash
# Two Podman containers share a pool by the options that `vshmem pool show` prints; one is killed, and what it held
# is given back without anybody's help.
#   tests/containers/run.sh VSHMEM
# The last line counts: `N passed, N failed`.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$(realpath "$1") pool=containers-$$
work=$(mktemp -d /tmp/vshmem-containers.XXXXXX) || exit 1
cdi=/run/cdi/vshmem-$pool.json
. tests/containers/engine.sh
cleanup() {
	rm -f "$cdi"
	rmdir --ignore-fail-on-non-empty /run/cdi 2>/dev/null
	stop_engine
}
trap cleanup EXIT
make -s -C tests/containers || exit 1
start_engine

state() { "$vshmem" ls --pool "$pool" --json; }
is_ready() { "${podman[@]}" logs "$1" 2>/dev/null | grep -q ready; }
is_given_back() { state | tr -d ' \n' | grep -q '"nattch":0,' && [ "$(container --rm "${given[@]}" $image /bin/vshmem run /bin/member look 2>&1 | grep -o 'semaphore .*')" = "semaphore 0" ]; }
has_no_client() { ! state | grep -q '"state": "active"'; }
keeper() { pgrep -f "agent --pool /dev/shm/vshmem.$pool --stay --keep" >/dev/null; }

holder() { # holder NAME: starts it, and waits until it holds something
	container -d --name "$1" "${given[@]}" $image /bin/vshmem run /bin/member hold && until_true is_ready "$1"
}
sees_it() { [ "$(container --rm "${given[@]}" $image /bin/vshmem run /bin/member look 2>&1 | tee /dev/stderr)" = "text from-the-first, attaches 2, semaphore 1" ]; }
names_it() { ! "$vshmem" pool rm "$pool" && "$vshmem" pool rm "$pool" 2>&1 | grep -q 'use it'; }
killed() { "${podman[@]}" kill "$1" && until_true is_given_back; }

share() { # share NAME: one container with what is in $given holds, another sees it, the first is killed
	ok "$1: a container holds an attach and a SEM_UNDO" holder "$1"
	ok "$1: another one sees them" sees_it
	ok "$1: the pool is not removed under them" names_it
	ok "$1: killed, and what it held is given back" killed "$1"
}

"$vshmem" pool create "$pool" --size 32M --mode 0666 >/dev/null || exit 1

# A CDI file alone: its hook starts what watches the containers.
mkdir -p /run/cdi
"$vshmem" pool show "$pool" --as cdi >"$cdi" 2>/dev/null
given=(--device "vshmem.io/pool=$pool")
share cdi
ok "cdi: the host's agent stays" keeper
rm -f "$cdi"

# The plain option, and the agent started by hand: it runs already, so nothing changes.
ok "an agent that is kept is started once" "$vshmem" agent --keep --pool "/dev/shm/vshmem.$pool"
given=($("$vshmem" pool show "$pool" --as podman 2>/dev/null))
share podman
ok "all clients are gone" until_true has_no_client
# A container that was given the pool and does not use it.
idle() {
	container -d --name idle "${given[@]}" $image /bin/member wait && until_true eval '"$vshmem" pool rm "$pool" 2>&1 | grep "1 containers were given it (that of process [0-9]* (member))"' &&
		"${podman[@]}" rm -f -t 0 idle
}
ok "a container that does not use the pool is named all the same" idle
ok "nothing is wrong in the pool" "$vshmem" pool check "$pool"

ends() { "$vshmem" pool rm "$pool" && until_true eval '! keeper'; }
ok "the pool can be removed, and its agent ends" ends
echo "$passed passed, $failed failed"
[ $failed = 0 ]

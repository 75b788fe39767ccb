#!/bin/bash
# The scripts for Slurm without Slurm: what other jobs, other users and huge pages do to them.
#   tests/slurm/scripts.sh
# The last line counts: `N passed, N failed`.
cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
work=$(mktemp -d /tmp/vshmem-slurm-scripts.XXXXXX) || exit 1
trap 'rm -rf "$work"' EXIT
scripts=$PWD/packaging/slurm
mkdir "$work/bin" "$work/records" "$work/shm" "$work/huge"
cat >"$work/conf" <<-EOF
	PATH=$work/bin:$PATH RECORDS=$work/records POOLS=$work/shm HUGE_POOLS=$work/huge
EOF
# As the command: `pool rm FILE --force`, `pool create NAME ...`.
cat >"$work/bin/vshmem" <<-EOF
	#!/bin/sh
	if [ "\$2" = rm ]; then exec rm "\$3"; fi
	set -C
	: >"$work/shm/vshmem.\$3"
EOF
# Everybody is this user.
cat >"$work/bin/setpriv" <<-'EOF'
	#!/bin/sh
	while [ "${1#/}" = "$1" ] && [ "$1" != vshmem ]; do shift; done
	exec "$@"
EOF
# While it answers, the prolog of job 200 makes its record and its pool.
cat >"$work/bin/squeue" <<-EOF
	#!/bin/sh
	echo 300
	: >"$work/records/200"
	: >"$work/shm/vshmem.job200"
EOF
chmod +x "$work/bin/"*

script() { # script NAME JOB
	VSHMEM_SLURM_CONF=$work/conf SLURM_JOB_ID=$2 SLURM_JOB_UID=$(id -u) "$scripts/$1"
}
explain() { ls -lR "$work/shm" "$work/huge" "$work/records"; }

leaves_new_ones() {
	: >"$work/records/100"; : >"$work/shm/vshmem.job100"
	script epilog 300
	[ ! -e "$work/shm/vshmem.job100" ] && [ ! -e "$work/records/100" ] && [ -e "$work/shm/vshmem.job200" ] && [ -e "$work/records/200" ]
}
ok "a job that begins while the controller is asked keeps its pool" leaves_new_ones
rm -f "$work/records/"* "$work/shm/"*

removes_huge() {
	: >"$work/records/7"; : >"$work/huge/vshmem.job7"
	script epilog 7
	[ ! -e "$work/huge/vshmem.job7" ] && [ ! -e "$work/records/7" ]
}
ok "a pool of huge pages is removed" removes_huge

puts_aside() {
	mkdir -p "$work/shm/vshmem.job8/full"
	ln -s /nowhere "$work/huge/vshmem.job8"
	script prolog 8
	[ -f "$work/shm/vshmem.job8" ] && [ ! -L "$work/huge/vshmem.job8" ]
}
ok "a directory and a link that are in the way are put aside" puts_aside

planted() { find "$work/shm" "$work/huge" -name '.vshmem-planted.*' | grep .; }
leaves_nothing_planted() {
	mkdir -p "$work/shm/vshmem.job9/full/deep" "$work/huge/vshmem.job9" && : >"$work/shm/vshmem.job9/full/deep/file"
	script prolog 9
	[ -f "$work/shm/vshmem.job9" ] && ! planted
}
ok "a directory that was in the way is removed, with what is in it" leaves_nothing_planted

# As for a user whose process fills the directory: what is left goes when that process has ended.
removes_what_was_left() {
	mkdir "$work/shm/vshmem.job10"
	printf '#!/bin/sh\nexit 1\n' >"$work/bin/rm"
	chmod +x "$work/bin/rm"
	script prolog 10
	command rm "$work/bin/rm"
	[ -f "$work/shm/vshmem.job10" ] && planted || return
	script epilog 10
	! planted
}
ok "what could not be removed goes with the next job" removes_what_was_left

if [ "$(id -u)" = 0 ]; then
	leaves_others() {
		setpriv --reuid 65534 --regid 65534 --clear-groups mkdir "$work/shm/.vshmem-planted.others" || return
		script epilog 11
		[ -d "$work/shm/.vshmem-planted.others" ] && rmdir "$work/shm/.vshmem-planted.others"
	}
	chmod 755 "$work" && chmod 1777 "$work/shm"
	ok "a directory of that name that a user has made is left to him" leaves_others
fi

echo "$passed passed, $failed failed"
[ $failed = 0 ]

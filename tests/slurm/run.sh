#!/bin/bash
# A pool for each Slurm job: made for its user, removed after any end of the job.
#   tests/slurm/run.sh VSHMEM
# The last line counts: `N passed, N failed`.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$(realpath "$1") user=games other=daemon
work=$(mktemp -d /tmp/vshmem-slurm.XXXXXX) || exit 1
chmod 755 "$work"
. tests/checks.sh
. tests/slurm/cluster.sh
cleanup() {
	local record
	for record in "$work"/records/* "$work/records/${forged:-none}"; do rm -f "/dev/shm/vshmem.job${record##*/}"; done
	stop_cluster
}
trap cleanup EXIT
trap 'exit 130' INT TERM
start_cluster

explain() { tail -n 5 "$work/slurmd.log" "$work/slurmctld.log"; }
as() { # as USER COMMAND...
	local name=$1
	shift
	setpriv --reuid "$(id -u "$name")" --regid "$(id -g "$name")" --clear-groups "$@"
}
# Runs words of a shell as a job of the user's, and waits for its end.
job() { (cd /tmp && PATH=$work/bin:$PATH timeout 60 setpriv --reuid "$(id -u $user)" --regid "$(id -g $user)" --clear-groups srun -Q -n "${tasks:-1}" sh -c "$1" </dev/null); }
# Puts them into the queue, and prints the job's number.
queued() { (cd /tmp && PATH=$work/bin:$PATH as $user sbatch --parsable -o "${1:-/dev/null}" --wrap "$2"); }
next_job() { echo $(($(scontrol show config | sed -n 's/^NEXT_JOB_ID *= //p'))); }
pool_of() { echo "/dev/shm/vshmem.job$1"; }
has_pool() { [ -e "$(pool_of "$1")" ]; }
has_none() { ! has_pool "$1"; }
runs() { [ "$(squeue -h -j "$1" -o %T)" = RUNNING ] && has_pool "$1"; }

makes_one() {
	local said
	said=$(job 'stat -c "%U %a" /dev/shm/vshmem.$VSHMEM_POOL; echo $VSHMEM_POOL') && echo "$said" &&
		[ "$(head -1 <<<"$said")" = "$user 600" ] && number=$(sed -n '2s/^job//p' <<<"$said") && until_true has_none "$number"
}
ok "a job has a pool of its user's, with mode 0600, which is gone after it" makes_one

is_shared() {
	local number
	number=$(queued "$work/steps.out" 'srun -n1 vshmem run ipcmk -M 4096 && srun -n1 vshmem run ipcs -m && vshmem run ipcs -m') && until_true test -n "$number" && until_true has_none "$number" &&
		until_true eval '[ -z "$(squeue -h -j '"$number"')" ]' && cat "$work/steps.out" && [ "$(grep -c ' 4096 ' "$work/steps.out")" = 2 ]
}
touch "$work/steps.out"
chown $user "$work/steps.out"
ok "steps of a job, and its batch script, share it" is_shared

# The processes of a job that runs.
processes() { scontrol listpids "$number" 2>/dev/null | awk 'NR > 1 && $1 > 0 { print $1 }'; }
sleeping() { ps -o pid=,comm= -p "$(processes | paste -sd,)" | awk '$2 == "sleep" { print $1 }'; }
sleeps() { [ -n "$(sleeping)" ]; }
is_removed_after() { # is_removed_after COMMAND OF A JOB, WHAT TO DO WHEN IT RUNS
	local number
	number=$(queued /dev/null "$1") && until_true runs "$number" && eval "$2" && until_true has_none "$number"
}
# It goes on when it was seen to run.
ok "a job that fails" is_removed_after "until [ -e $work/seen ]; do sleep 0.1; done; vshmem run ipcmk -M 4096; exit 3" 'touch "$work/seen"'
ok "a job that is cancelled" is_removed_after 'vshmem run sleep 1000' 'as $user scancel $number'
ok "a job whose program is killed" is_removed_after 'vshmem run sleep 1000' 'until_true sleeps && kill -9 $(sleeping)'

# The node's daemon, the job's keeper and the job end at once, as when the machine stops; its memory stays here.
crash() {
	until_true sleeps || return 1
	local keeper keepers pids
	pids=$(processes)
	keepers=$(ps -o ppid= -p "$(paste -sd, <<<"$pids")" | sort -u)
	kill -9 "$slurmd" $pids
	for keeper in $keepers; do
		[ "$(ps -o comm= -p "$keeper")" != slurmstepd ] || kill -9 "$keeper"
	done
	wait "$slurmd" 2>/dev/null
	has_pool "$number" || return 1
	# The controller gives the job up; no epilog runs for it.
	until_true eval '[ -z "$(squeue -h -j $number)" ]' && start_node && until_true is_idle && has_pool "$number" || return 1
	job true
}
ok "a job whose node has crashed, when the next job comes" is_removed_after 'vshmem run sleep 1000' crash
until_true is_idle

is_not_taken() {
	local said
	forged=$(next_job)
	as $other "$vshmem" pool create "job$forged" --size 16M --mode 0666 || return 1
	said=$(job 'stat -c "%U %a" /dev/shm/vshmem.job$SLURM_JOB_ID; echo $SLURM_JOB_ID $VSHMEM_POOL')
	echo "$said"
	[ "$said" = "$user 600"$'\n'"$forged job$forged" ]
}
ok "a pool that another user has made under the job's name is not taken" is_not_taken

says_so() {
	local said
	echo 'POOL_SIZE=100T' >>"$work/vshmem.conf"
	said=$(job 'vshmem run true; echo "status $?"' 2>&1)
	echo "$said"
	grep -q 'has no pool on' <<<"$said" && grep -q 'pool job[0-9]*-not-made: ' <<<"$said" && grep -q 'status 1' <<<"$said" && until_true is_idle
}
ok "a job without a pool runs, is told so, and has no private one" says_so

echo "$passed passed, $failed failed"
[ $failed = 0 ]

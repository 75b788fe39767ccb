# To be sourced by prolog and epilog: settings, and removing the pools of jobs that this node does not have any more.
# /etc/vshmem/slurm.conf, read as shell: POOL_SIZE (1G), POOL_OPTIONS (more options of `vshmem pool create`),
# VSHMEM (the command).
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
VSHMEM=vshmem POOL_SIZE=1G POOL_OPTIONS=
# One file for each pool that the prolog has made. Gone after a reboot, as the pools are.
RECORDS=/run/vshmem/slurm
conf=${VSHMEM_SLURM_CONF:-/etc/vshmem/slurm.conf}
if [ -r "$conf" ]; then . "$conf"; fi

report() { logger -t vshmem "job $SLURM_JOB_ID: $1" 2>/dev/null; }

remove_pool() { # remove_pool JOB
	if [ -e "/dev/shm/vshmem.job$1" ] && ! said=$("$VSHMEM" pool rm "job$1" --force 2>&1); then
		report "its pool is not removed: $said"
		return
	fi
	rm -f "$RECORDS/$1"
}

# After a crash of slurmd and its jobs alone, no epilog runs for them. The controller is asked only where other jobs have
# pools here; when it does not answer nothing is removed.
remove_leftovers() {
	[ -n "$(find "$RECORDS" -type f ! -name "$SLURM_JOB_ID" 2>/dev/null)" ] || return
	jobs=$(squeue -h -w "${SLURMD_NODENAME:-$(hostname -s)}" -o %A 2>/dev/null) || return
	for record in "$RECORDS"/*; do
		job=${record##*/}
		printf '%s\n' "$SLURM_JOB_ID" "$jobs" | grep -qx "$job" || remove_pool "$job"
	done
}

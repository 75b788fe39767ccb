# To be sourced by prolog and epilog: settings, and removing the pools of jobs that this node does not have any more.
# /etc/vshmem/slurm.conf, read as shell: POOL_SIZE (1G), POOL_OPTIONS (more options of `vshmem pool create`),
# VSHMEM (the command).
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
VSHMEM=vshmem POOL_SIZE=1G POOL_OPTIONS=
# One file for each pool that the prolog has made. Gone after a reboot, as the pools are.
RECORDS=/run/vshmem/slurm
POOLS=/dev/shm HUGE_POOLS=/dev/hugepages
conf=${VSHMEM_SLURM_CONF:-/etc/vshmem/slurm.conf}
if [ -r "$conf" ]; then . "$conf"; fi

report() { logger -t vshmem "job $SLURM_JOB_ID: $1" 2>/dev/null; }

# Where `vshmem pool create` puts a pool, and where with --hugepages.
files_of() { printf '%s\n' "$POOLS/vshmem.job$1" "$HUGE_POOLS/vshmem.job$1"; }

remove_pool() { # remove_pool JOB
	for file in $(files_of "$1"); do
		[ -e "$file" ] || continue
		# By its path: under the same name there may be another file in the other directory.
		if ! said=$("$VSHMEM" pool rm "$file" --force 2>&1) && ! rm -f "$file" 2>/dev/null; then
			report "its pool is not removed: $said"
			return
		fi
	done
	rm -f "$RECORDS/$1"
}

# After a crash of slurmd and its jobs alone, no epilog runs for them. The controller is asked only where other jobs have
# pools here; when it does not answer nothing is removed. The records are read first: a job whose prolog runs meanwhile
# is not in the controller's answer.
remove_leftovers() {
	records=$(find "$RECORDS" -type f ! -name "$SLURM_JOB_ID" 2>/dev/null)
	[ -n "$records" ] || return
	jobs=$(squeue -h -w "${SLURMD_NODENAME:-$(hostname -s)}" -o %A 2>/dev/null) || return
	for record in $records; do
		job=${record##*/}
		printf '%s\n' "$SLURM_JOB_ID" "$jobs" | grep -qxF "$job" || remove_pool "$job"
	done
}

# Puts what is in the place of a pool, and is none of this job's, into a directory that only root can enter, in one step: the
# owner of a directory could fill it faster than it is emptied.
put_aside() { # put_aside FILE
	aside=$(mktemp -d "${1%/*}/.vshmem-planted.XXXXXX") && mv -T "$1" "$aside/planted"
}

# And removes all that was put aside, also by a prolog before: who has such a directory open can fill it until his processes end.
remove_planted() {
	for aside in "$POOLS"/.vshmem-planted.* "$HUGE_POOLS"/.vshmem-planted.*; do
		# Somebody else's is not what was put aside.
		[ -d "$aside" ] && [ ! -L "$aside" ] && [ -O "$aside" ] || continue
		said=$(timeout -s KILL 20 rm -rf --one-file-system "$aside" 2>&1) || report "$aside, which \
somebody has put in the place of a pool, is not removed yet: ${said:-it takes more than 20 s}; the next job tries again"
	done
}

# To be sourced: a cluster of one node, of Debian's Slurm, with the prolog and epilog of packaging/slurm.
# Wants $vshmem (the command) and $work (a directory that every user may enter).
skip() { echo "    SKIPPED: Slurm: $1"; echo "1 passed, 0 failed"; exit 0; }

daemons=()
node=$(hostname -s)

write_configuration() {
	local script
	mkdir -p "$work"/{state,spool,bin,munge}
	cp "$vshmem" "$(dirname "$vshmem")"/libvshmem_preload*.so "$work/bin/"
	for script in prolog epilog taskprolog; do
		printf '#!/bin/sh\nexport SLURM_CONF=%s VSHMEM_SLURM_CONF=%s\nexec %s\n' "$work/slurm.conf" "$work/vshmem.conf" "$PWD/packaging/slurm/$script" >"$work/bin/$script"
	done
	# The task prolog runs as the job's user.
	cp packaging/slurm/taskprolog "$work/bin/taskprolog"
	chmod 755 "$work"/bin/*
	printf 'VSHMEM=%s\nPOOL_SIZE=16M\nRECORDS=%s\n' "$work/bin/vshmem" "$work/records" >"$work/vshmem.conf"
	cat >"$work/slurm.conf" <<-EOF
		ClusterName=vshmem
		SlurmctldHost=$node(127.0.0.1)
		SlurmUser=root
		SlurmdUser=root
		AuthType=auth/munge
		AuthInfo=socket=$work/munge.socket
		CredType=cred/munge
		SlurmctldPort=$port
		SlurmdPort=$((port + 1))
		StateSaveLocation=$work/state
		SlurmdSpoolDir=$work/spool
		SlurmctldPidFile=$work/slurmctld.pid
		SlurmdPidFile=$work/slurmd.pid
		SlurmctldLogFile=$work/slurmctld.log
		SlurmdLogFile=$work/slurmd.log
		ProctrackType=proctrack/linuxproc
		TaskPlugin=task/none
		SwitchType=switch/none
		JobAcctGatherType=jobacct_gather/none
		SelectType=select/cons_tres
		MpiDefault=none
		ReturnToService=2
		KillWait=2
		SlurmdTimeout=4
		BatchStartTimeout=1
		JobRequeue=0
		PrologFlags=Alloc
		Prolog=$work/bin/prolog
		Epilog=$work/bin/epilog
		TaskProlog=$work/bin/taskprolog
		NodeName=$node NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
		PartitionName=all Nodes=$node Default=YES MaxTime=10 OverSubscribe=FORCE:8 State=UP
		EOF
	export SLURM_CONF=$work/slurm.conf
}

start_munge() {
	chmod 700 "$work/munge"
	head -c 1024 /dev/urandom >"$work/munge/key"
	chmod 400 "$work/munge/key"
	munged --force --foreground --key-file="$work/munge/key" --socket="$work/munge.socket" --pid-file="$work/munge/pid" \
		--log-file="$work/munge/log" --seed-file="$work/munge/seed" --num-threads=2 >"$work/munge/out" 2>&1 &
	daemons+=($!)
	until_true test -S "$work/munge.socket"
}

start_node() {
	slurmd -D >"$work/slurmd.out" 2>&1 &
	slurmd=$!
}

start_cluster() {
	local command
	for command in munged slurmctld slurmd srun setpriv; do
		command -v $command >/dev/null || skip "no $command here (scripts/setup slurm)"
	done
	[ "$(id -u)" = 0 ] || skip "this test runs as root"
	# Below those that the kernel gives to connections.
	port=$((20000 + $$ % 6000 * 2))
	write_configuration
	start_munge || skip "munged does not start: $(tail -1 "$work/munge/out")"
	slurmctld -D >"$work/slurmctld.out" 2>&1 &
	daemons+=($!)
	start_node
	until_true is_idle || skip "the cluster does not come up: $(tail -n 1 "$work/slurmd.log")"
}

stop_cluster() {
	[ -z "${slurmd:-}" ] || kill -9 "$slurmd" 2>/dev/null
	[ ${#daemons[@]} = 0 ] || kill "${daemons[@]}" 2>/dev/null
	wait 2>/dev/null
	rm -rf "$work"
}

is_idle() { sinfo -h -o %T 2>/dev/null | grep -qE 'idle|mixed|allocated'; }

# Waits for a state; the bound only ends a test that has failed.
until_true() { # until_true COMMAND...
	local try
	for try in {1..600}; do
		"$@" >/dev/null 2>&1 && return 0
		sleep 0.1
	done
	return 1
}

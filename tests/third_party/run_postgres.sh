#!/bin/sh
# PostgreSQL with all its shared memory from System V: run_postgres.sh ['CMD PREFIX' [SECONDS]]
# initdb (which takes System V for its own while), pgbench with parallel queries, a crash of one server process, and a fast shutdown.
prefix=$1 seconds=${2:-5}
root=$(cd "$(dirname "$0")/../.." && pwd)
passed=0 failed=0
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
if [ -z "$bin" ] || [ ! -x "$bin/initdb" ] || [ ! -x "$bin/pgbench" ]; then
	echo "postgresql is not installed"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
work=$(mktemp -d /tmp/postgres-XXXXXX) || exit 1
# The server refuses root.
ordinary=
if [ "$(id -u)" = 0 ]; then
	ordinary='setpriv --reuid 65534 --regid 65534 --clear-groups'
	chown 65534:65534 "$work"
fi
clean() {
	[ -f "$work/data/postmaster.pid" ] && $ordinary "$bin/pg_ctl" -D "$work/data" -m immediate stop >/dev/null 2>&1
	rm -rf "$work"
}
trap clean EXIT
cd "$work" || exit 1

try() { # what, then a command that must succeed
	what=$1
	shift
	if "$@" >"$work/log" 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED $what"
		cat "$work/log"
		tail -20 "$work/server.log" 2>/dev/null
	fi
}
ask() { "$bin/psql" -h "$work" -U tester -At -c "$1" postgres; }
answers() { # expected, question
	test "$(ask "$2")" = "$1"
}

try initdb $prefix $ordinary "$bin/initdb" -D "$work/data" -U tester -A trust -N
if [ $failed != 0 ]; then
	echo "$passed passed, $failed failed, 0 skipped"
	exit 1
fi
cat >>"$work/data/postgresql.conf" <<-CONF
	shared_memory_type = sysv
	dynamic_shared_memory_type = sysv
	shared_buffers = 16MB
	unix_socket_directories = '$work'
	listen_addresses = ''
	fsync = off
	min_parallel_table_scan_size = 0
	parallel_setup_cost = 0
	parallel_tuple_cost = 0
	debug_parallel_query = on
CONF
"$bin/postgres" -V | grep -q ' 1[0-5]\.' && sed -i 's/^debug_parallel_query/force_parallel_mode/' "$work/data/postgresql.conf"
up() { $prefix $ordinary "$bin/pg_ctl" -D "$work/data" -l "$work/server.log" -w -t 120 start; }
try 'start' up
if [ $failed != 0 ]; then
	echo "$passed passed, $failed failed, 0 skipped"
	exit 1
fi
try 'shared memory is System V' answers sysv 'show shared_memory_type'
# Held by the server while it runs; as the listing of the place where they should be shows.
held() { $prefix ipcs -m | awk -v user="$(stat -c %U data)" '$3 == user && $6 > 0 { n++ } END { exit n == 0 }'; }
try 'its segments are attached' held
try 'pgbench -i' "$bin/pgbench" -h "$work" -U tester -q -i -s 2 postgres
try 'pgbench' "$bin/pgbench" -h "$work" -U tester -n -c 4 -j 2 -T "$seconds" postgres
grep -E '^(tps|number of transactions)' "$work/log"
try 'a parallel query' answers 200000 'select count(*) from pgbench_accounts'
try 'accounts balance' answers t 'select sum(abalance) = (select sum(delta) from pgbench_history) from pgbench_accounts'
# A server process that is killed makes all others start again, with new segments and sets.
victim=$("$bin/psql" -h "$work" -U tester -At -c 'select pid from pg_stat_activity where backend_type = $$checkpointer$$' postgres)
kill -9 "$victim"
again() {
	for _ in $(seq 100); do
		answers 200000 'select count(*) from pgbench_accounts' 2>/dev/null && return
		sleep 0.2
	done
	return 1
}
try 'recovery after SIGKILL' again
try 'shutdown' $ordinary "$bin/pg_ctl" -D "$work/data" -m fast -w -t 120 stop
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]

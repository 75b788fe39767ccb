/* semget(2) and semctl(2): sets, values, states, limits. */
#include "case.h"

CASE(sem_get_private_distinct)
{
	int a = set_of(1), b = set_of(1);
	say("two private sets differ: %s, not negative: %s", yes(a != b), yes(a >= 0 && b >= 0));
}

CASE(sem_get_by_key)
{
	key_t key = fresh_key();
	say("missing: %s", got(semget(key, 3, 0)));
	int a = track_set(semget(key, 3, IPC_CREAT | 0600));
	say("create: %s", made(a));
	say("open: same %s", yes(semget(key, 3, 0) == a));
	say("open with IPC_CREAT: same %s", yes(semget(key, 3, IPC_CREAT | 0600) == a));
	say("IPC_EXCL: %s", got(semget(key, 3, IPC_CREAT | IPC_EXCL | 0600)));
	say("key in the state: %s", yes(set_state(a).sem_perm.__key == key));
}

CASE(sem_get_size)
{
	key_t key = fresh_key();
	say("0 to create: %s", got(semget(key, 0, IPC_CREAT | 0600)));
	say("0 private: %s", got(semget(IPC_PRIVATE, 0, 0600)));
	say("-1: %s", got(semget(IPC_PRIVATE, -1, 0600)));
	int a = track_set(semget(key, 5, IPC_CREAT | 0600));
	say("0 opens: %s", yes(semget(key, 0, 0) == a));
	say("fewer: %s", yes(semget(key, 2, 0) == a));
	say("more: %s", got(semget(key, 6, 0)));
	say("more with IPC_CREAT: %s", got(semget(key, 6, IPC_CREAT | 0600)));
	say("-1 for an existing one: %s", got(semget(key, -1, 0)));
}

CASE(sem_get_largest)
{
	struct seminfo limits;
	if (semctl(0, 0, IPC_INFO, (union semun) { .info = &limits }) == -1)
		broken("IPC_INFO");
	say("SEMMSL + 1: %s", got(semget(IPC_PRIVATE, limits.semmsl + 1, 0600)));
	int a = set_of(1000);
	set_value(a, 999, 7);
	say("the 1000th: %d, the one before: %d", value(a, 999), value(a, 998));
}

CASE(sem_get_fresh_state)
{
	int a = track_set(semget(IPC_PRIVATE, 4, 0640));
	struct semid_ds ds = set_state(a);
	say("semaphores %lu, otime %s, ctime %s", (unsigned long)ds.sem_nsems, when(ds.sem_otime),
		when(ds.sem_ctime));
	say("owner is me: %s, mode %o, key %d",
		yes(ds.sem_perm.uid == geteuid() && ds.sem_perm.cgid == getegid()),
		ds.sem_perm.mode, ds.sem_perm.__key);
	for (int i = 0; i < 4; i++)
		say("%d: value %d, pid %s, ncnt %d, zcnt %d", i, value(a, i),
			who(asked(a, i, GETPID), 0), asked(a, i, GETNCNT), asked(a, i, GETZCNT));
}

CASE(sem_get_removed)
{
	key_t key = fresh_key();
	int a = track_set(semget(key, 1, IPC_CREAT | 0600));
	say("remove: %s", got(semctl(a, 0, IPC_RMID)));
	say("open: %s", got(semget(key, 1, 0)));
	say("semop: %s", got(step(a, 0, 1, 0)));
	say("GETVAL: %s", got(semctl(a, 0, GETVAL)));
	say("SETVAL: %s", got(semctl(a, 0, SETVAL, (union semun) { .val = 1 })));
	say("remove again: %s", got(semctl(a, 0, IPC_RMID)));
	int b = track_set(semget(key, 1, IPC_CREAT | IPC_EXCL | 0600));
	say("made again: %s, another id: %s, value %d", made(b), yes(a != b), value(b, 0));
}

CASE(sem_get_no_old_values)
{
	bool zero = true;
	for (int round = 0; round < 5; round++) {
		int a = set_of(50);
		for (int i = 0; i < 50; i++) {
			zero = zero && value(a, i) == 0 && asked(a, i, GETPID) == 0;
			set_value(a, i, 100 + i);
		}
		semctl(a, 0, IPC_RMID);
	}
	say("five sets one after the other start at 0: %s", yes(zero));
}

CASE(sem_get_many)
{
	int n = 0;
	for (int i = 0; i < 200; i++)
		n += set_of(2) != -1;
	say("200 at once: %d", n);
}

CASE(sem_ctl_setval)
{
	int a = set_of(2);
	say("5: %s", got(semctl(a, 1, SETVAL, (union semun) { .val = 5 })));
	say("values %d %d", value(a, 0), value(a, 1));
	say("32767: %s", got(semctl(a, 0, SETVAL, (union semun) { .val = 32767 })));
	say("32768: %s", got(semctl(a, 0, SETVAL, (union semun) { .val = 32768 })));
	say("-1: %s", got(semctl(a, 0, SETVAL, (union semun) { .val = -1 })));
	say("values %d %d", value(a, 0), value(a, 1));
}

CASE(sem_ctl_setval_state)
{
	int a = set_of(2);
	set_value(a, 1, 3);
	struct semid_ds ds = set_state(a);
	say("pids %s %s", who(asked(a, 0, GETPID), 0), who(asked(a, 1, GETPID), 0));
	say("otime %s, ctime %s", when(ds.sem_otime), when(ds.sem_ctime));
}

CASE(sem_ctl_setall_getall)
{
	int a = set_of(3);
	unsigned short in[3] = { 1, 0, 32767 }, out[3] = { 9, 9, 9 };
	say("SETALL: %s", got(semctl(a, 0, SETALL, (union semun) { .array = in })));
	say("GETALL: %s", got(semctl(a, 0, GETALL, (union semun) { .array = out })));
	say("%u %u %u", out[0], out[1], out[2]);
	say("pid %s, otime %s", who(asked(a, 1, GETPID), 0), when(set_state(a).sem_otime));
	unsigned short bad[3] = { 7, 32768, 7 };
	say("one too large: %s", got(semctl(a, 0, SETALL, (union semun) { .array = bad })));
	say("values %d %d %d", value(a, 0), value(a, 1), value(a, 2));
	say("GETALL ignores the number: %s",
		got(semctl(a, 77, GETALL, (union semun) { .array = out })));
}

CASE(sem_ctl_setall_large)
{
	enum { N = 500 };
	int a = set_of(N);
	unsigned short in[N], out[N];
	for (int i = 0; i < N; i++)
		in[i] = (unsigned short)(i * 61 % 32768);
	say("%s", got(semctl(a, 0, SETALL, (union semun) { .array = in })));
	say("%s", got(semctl(a, 0, GETALL, (union semun) { .array = out })));
	say("all of 500 back: %s", yes(memcmp(in, out, sizeof in) == 0));
}

CASE(sem_ctl_errors)
{
	int a = set_of(2);
	say("GETVAL of number 2: %s", got(semctl(a, 2, GETVAL)));
	say("GETVAL of number -1: %s", got(semctl(a, -1, GETVAL)));
	say("SETVAL of number 2: %s", got(semctl(a, 2, SETVAL, (union semun) { .val = 0 })));
	say("GETPID of number 2: %s", got(semctl(a, 2, GETPID)));
	say("GETNCNT of number 2: %s", got(semctl(a, 2, GETNCNT)));
	say("GETZCNT of number -1: %s", got(semctl(a, -1, GETZCNT)));
	say("unknown command: %s", got(semctl(a, 0, 4711)));
	say("negative command: %s", got(semctl(a, 0, -3)));
	say("id -1: %s", got(semctl(-1, 0, GETVAL)));
	say("IPC_RMID of -1: %s", got(semctl(-1, 0, IPC_RMID)));
	say("IPC_STAT to a bad pointer: %s",
		got(semctl(a, 0, IPC_STAT, (union semun) { .val = 16 })));
	say("GETALL to a bad pointer: %s", got(semctl(a, 0, GETALL, (union semun) { .val = 16 })));
	say("SETALL from a bad pointer: %s",
		got(semctl(a, 0, SETALL, (union semun) { .val = 16 })));
	say("IPC_SET from a bad pointer: %s",
		got(semctl(a, 0, IPC_SET, (union semun) { .val = 16 })));
	say("IPC_RMID ignores the number: %s", got(semctl(a, 99, IPC_RMID)));
}

CASE(sem_ctl_set)
{
	int a = set_of(1);
	struct semid_ds ds = set_state(a);
	ds.sem_perm.mode = 0177640;
	ds.sem_nsems = 9;
	say("%s", got(semctl(a, 0, IPC_SET, (union semun) { .buf = &ds })));
	ds = set_state(a);
	say("mode %o, semaphores %lu, ctime %s", ds.sem_perm.mode, (unsigned long)ds.sem_nsems,
		when(ds.sem_ctime));
}

CASE(sem_ctl_info)
{
	struct seminfo i = { 0 };
	set_of(3);
	int highest = semctl(0, 0, IPC_INFO, (union semun) { .info = &i });
	say("IPC_INFO: %s", highest >= 0 ? "not negative" : got(highest));
	say("semmni > 0: %s, semmns > 0: %s, semmsl > 0: %s, semopm > 0: %s", yes(i.semmni > 0),
		yes(i.semmns > 0), yes(i.semmsl > 0), yes(i.semopm > 0));
	say("semvmx %d, semaem %d", i.semvmx, i.semaem);
	highest = semctl(0, 0, SEM_INFO, (union semun) { .info = &i });
	say("SEM_INFO: %s, sets > 0: %s, semaphores >= 3: %s",
		highest >= 0 ? "not negative" : got(highest), yes(i.semusz > 0),
		yes(i.semaem >= 3));
	say("to a bad pointer: %s", got(semctl(0, 0, IPC_INFO, (union semun) { .val = 16 })));
}

static int index_of(int id, int command, struct semid_ds *ds)
{
	struct seminfo i;
	int highest = semctl(0, 0, SEM_INFO, (union semun) { .info = &i });
	for (int at = 0; at <= highest; at++)
		if (semctl(at, 0, command, (union semun) { .buf = ds }) == id)
			return at;
	return -1;
}

CASE(sem_ctl_stat_by_index)
{
	int a = set_of(17);
	struct semid_ds ds = { 0 };
	say("found by SEM_STAT: %s", yes(index_of(a, SEM_STAT, &ds) >= 0));
	say("semaphores %lu", (unsigned long)ds.sem_nsems);
	ds.sem_nsems = 0;
	say("found by SEM_STAT_ANY: %s", yes(index_of(a, SEM_STAT_ANY, &ds) >= 0));
	say("semaphores %lu", (unsigned long)ds.sem_nsems);
	say("negative index: %s", got(semctl(-1, 0, SEM_STAT, (union semun) { .buf = &ds })));
}

static void look_from_outside(void *context)
{
	struct semid_ds ds;
	int a = *(int *)context;
	say("IPC_STAT: %s", got(semctl(a, 0, IPC_STAT, (union semun) { .buf = &ds })));
	say("SEM_STAT: found %s", yes(index_of(a, SEM_STAT, &ds) >= 0));
	say("SEM_STAT_ANY: found %s", yes(index_of(a, SEM_STAT_ANY, &ds) >= 0));
}

CASE(sem_ctl_stat_any_needs_no_permission)
{
	int a = set_of(1);
	as_nobody(look_from_outside, &a);
}

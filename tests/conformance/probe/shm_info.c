/* shmctl(2): states, settings, and the system-wide questions. */
#include "case.h"

enum { PAGE = 4096 };

CASE(shm_ctl_errors)
{
	int a = segment_of(PAGE);
	struct shmid_ds ds;
	say("unknown command: %s", got(shmctl(a, 4711, &ds)));
	say("negative command: %s", got(shmctl(a, -1, &ds)));
	say("IPC_STAT of -1: %s", got(shmctl(-1, IPC_STAT, &ds)));
	say("IPC_RMID of -1: %s", got(shmctl(-1, IPC_RMID, NULL)));
	say("IPC_STAT of INT_MAX: %s", got(shmctl(INT_MAX, IPC_STAT, &ds)));
	say("IPC_STAT to a bad pointer: %s", got(shmctl(a, IPC_STAT, (void *)16)));
	say("IPC_SET from a bad pointer: %s", got(shmctl(a, IPC_SET, (void *)16)));
	say("IPC_STAT to NULL: %s", got(shmctl(a, IPC_STAT, NULL)));
}

CASE(shm_ctl_set)
{
	int a = segment_of(PAGE);
	struct shmid_ds ds = segment_state(a);
	ds.shm_perm.mode = 0177640;
	ds.shm_segsz = 1;
	say("%s", got(shmctl(a, IPC_SET, &ds)));
	ds = segment_state(a);
	say("mode %o, size %lu, ctime %s", ds.shm_perm.mode, (unsigned long)ds.shm_segsz,
		when(ds.shm_ctime));
	ds.shm_perm.uid = (uid_t)-1;
	say("uid -1: %s", got(shmctl(a, IPC_SET, &ds)));
}

CASE(shm_ctl_info)
{
	struct shminfo limits = { 0 };
	segment_of(PAGE);
	int highest = shmctl(0, IPC_INFO, (void *)&limits);
	say("highest index: %s", highest >= 0 ? "not negative" : got(highest));
	say("shmmax > 0: %s, shmmin %lu, shmmni > 0: %s, shmall > 0: %s", yes(limits.shmmax > 0),
		(unsigned long)limits.shmmin, yes(limits.shmmni > 0), yes(limits.shmall > 0));
	struct shm_info usage;
	highest = shmctl(0, SHM_INFO, (void *)&usage);
	say("highest index: %s", highest >= 0 ? "not negative" : got(highest));
	say("used ids > 0: %s, total pages > 0: %s", yes(usage.used_ids > 0),
		yes(usage.shm_tot > 0));
	say("to a bad pointer: %s", got(shmctl(0, IPC_INFO, (void *)16)));
	say("SHM_INFO to a bad pointer: %s", got(shmctl(0, SHM_INFO, (void *)16)));
}

/* ipcs does this when there is no /proc/sysvipc. */
static int index_of(int id, int command, struct shmid_ds *ds)
{
	struct shm_info usage;
	int highest = shmctl(0, SHM_INFO, (void *)&usage);
	for (int i = 0; i <= highest; i++)
		if (shmctl(i, command, ds) == id)
			return i;
	return -1;
}

CASE(shm_ctl_stat_by_index)
{
	int a = segment_of(12345);
	struct shmid_ds ds;
	say("found by SHM_STAT: %s", yes(index_of(a, SHM_STAT, &ds) >= 0));
	say("size %lu, cpid %s", (unsigned long)ds.shm_segsz, who(ds.shm_cpid, 0));
	memset(&ds, 0, sizeof ds);
	say("found by SHM_STAT_ANY: %s", yes(index_of(a, SHM_STAT_ANY, &ds) >= 0));
	say("size %lu, cpid %s", (unsigned long)ds.shm_segsz, who(ds.shm_cpid, 0));
	int at = index_of(a, SHM_STAT, &ds);
	shmctl(a, IPC_RMID, NULL);
	say("index of a removed one is ours: %s", yes(shmctl(at, SHM_STAT, &ds) == a));
	say("negative index: %s", got(shmctl(-1, SHM_STAT, &ds)));
}

static void look_from_outside(void *context)
{
	int a = *(int *)context;
	struct shmid_ds ds;
	say("IPC_STAT: %s", got(shmctl(a, IPC_STAT, &ds)));
	say("SHM_STAT: found %s", yes(index_of(a, SHM_STAT, &ds) >= 0));
	say("SHM_STAT_ANY: found %s", yes(index_of(a, SHM_STAT_ANY, &ds) >= 0));
}

CASE(shm_ctl_stat_any_needs_no_permission)
{
	int a = segment_of(PAGE);
	as_nobody(look_from_outside, &a);
}

CASE(shm_ctl_stat_by_id)
{
	/* The index is the end of the id, and the kernel looks at that alone. */
	int a = segment_of(777);
	struct shmid_ds ds = { 0 };
	say("SHM_STAT: %s, size %lu", yes(shmctl(a, SHM_STAT, &ds) == a),
		(unsigned long)ds.shm_segsz);
	say("SHM_STAT_ANY: %s", yes(shmctl(a, SHM_STAT_ANY, &ds) == a));
	say("sets: %s",
		yes(semctl(track_set(semget(IPC_PRIVATE, 1, 0600)), 0, SEM_STAT,
			    (union semun) { .buf = (void *)&ds })
	                != -1));
	say("queues: %s", yes(msgctl(queue_of(), MSG_STAT, (void *)&ds) != -1));
}

CASE(shm_ctl_set_bad_owner)
{
	int a = segment_of(PAGE), s = set_of(1), q = queue_of();
	struct shmid_ds x = segment_state(a);
	struct semid_ds y = set_state(s);
	struct msqid_ds z = queue_state(q);
	x.shm_perm.gid = y.sem_perm.gid = z.msg_perm.gid = (gid_t)-1;
	say("gid -1: %s", got(shmctl(a, IPC_SET, &x)));
	say("gid -1: %s", got(semctl(s, 0, IPC_SET, (union semun) { .buf = &y })));
	say("gid -1: %s", got(msgctl(q, IPC_SET, &z)));
	x = segment_state(a);
	x.shm_perm.cuid = 77;
	x.shm_perm.__key = 77;
	x.shm_atime = 77;
	say("what cannot be set: %s", got(shmctl(a, IPC_SET, &x)));
	x = segment_state(a);
	say("cuid stays: %s, key %d, atime %s", yes(x.shm_perm.cuid == geteuid()), x.shm_perm.__key,
		when(x.shm_atime));
}

CASE(shm_ctl_lock_of_removed)
{
	int a = segment_of(PAGE);
	attach(a);
	shmctl(a, IPC_RMID, NULL);
	say("SHM_LOCK: %s, mode %o", got(shmctl(a, SHM_LOCK, NULL)),
		segment_state(a).shm_perm.mode);
	say("IPC_SET keeps the flags: ");
	struct shmid_ds ds = segment_state(a);
	ds.shm_perm.mode = 0640;
	shmctl(a, IPC_SET, &ds);
	say("mode %o", segment_state(a).shm_perm.mode);
	shmctl(a, SHM_UNLOCK, NULL);
	say("mode %o", segment_state(a).shm_perm.mode);
}

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
	say("mode %o, size %lu, ctime %s", ds.shm_perm.mode, (unsigned long)ds.shm_segsz, when(ds.shm_ctime));
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
	say("used ids > 0: %s, total pages > 0: %s", yes(usage.used_ids > 0), yes(usage.shm_tot > 0));
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

/* shmget(2): keys, sizes, flags, what a new segment looks like. */
#include "case.h"

#include <sys/stat.h>

enum { PAGE = 4096 };

CASE(shm_get_private_distinct)
{
	int a = segment_of(100), b = segment_of(100);
	say("two private segments differ: %s", yes(a != b));
	say("ids are not negative: %s", yes(a >= 0 && b >= 0));
}

CASE(shm_get_private_needs_no_creat)
{
	say("%s", made(track_segment(shmget(IPC_PRIVATE, PAGE, 0600))));
	say("with IPC_EXCL: %s", made(track_segment(shmget(IPC_PRIVATE, PAGE, IPC_EXCL | 0600))));
}

CASE(shm_get_by_key)
{
	key_t key = fresh_key();
	int a = track_segment(shmget(key, PAGE, IPC_CREAT | 0600));
	say("create: %s", made(a));
	say("open gives the same: %s", yes(shmget(key, PAGE, 0) == a));
	say("IPC_CREAT again gives the same: %s", yes(shmget(key, PAGE, IPC_CREAT | 0600) == a));
	say("key in the state: %s", yes(segment_state(a).shm_perm.__key == key));
}

CASE(shm_get_missing_key)
{
	say("%s", got(shmget(fresh_key(), PAGE, 0)));
	say("with IPC_EXCL alone: %s", got(shmget(fresh_key(), PAGE, IPC_EXCL)));
}

CASE(shm_get_excl)
{
	key_t key = fresh_key();
	track_segment(shmget(key, PAGE, IPC_CREAT | IPC_EXCL | 0600));
	say("IPC_CREAT|IPC_EXCL on an existing key: %s",
		got(shmget(key, PAGE, IPC_CREAT | IPC_EXCL | 0600)));
	say("IPC_EXCL alone: %s", made(shmget(key, PAGE, IPC_EXCL)));
	say("EXCL before size: %s", got(shmget(key, 10 * PAGE, IPC_CREAT | IPC_EXCL | 0600)));
}

CASE(shm_get_size_zero)
{
	key_t key = fresh_key();
	say("private: %s", got(shmget(IPC_PRIVATE, 0, 0600)));
	say("create: %s", got(shmget(key, 0, IPC_CREAT | 0600)));
	int a = track_segment(shmget(key, 10, IPC_CREAT | 0600));
	say("open: same %s", yes(shmget(key, 0, 0) == a));
	say("open with IPC_CREAT: same %s", yes(shmget(key, 0, IPC_CREAT | 0600) == a));
}

CASE(shm_get_size_other)
{
	key_t key = fresh_key();
	int a = track_segment(shmget(key, 5000, IPC_CREAT | 0600));
	say("smaller: same %s", yes(shmget(key, 1, 0) == a));
	say("equal: same %s", yes(shmget(key, 5000, 0) == a));
	say("larger within the last page: %s", got(shmget(key, 5001, 0)));
	say("larger: %s", got(shmget(key, 50000, 0)));
	say("larger with IPC_CREAT: %s", got(shmget(key, 50000, IPC_CREAT | 0600)));
}

CASE(shm_get_size_kept)
{
	say("1 byte: %lu", (unsigned long)segment_state(segment_of(1)).shm_segsz);
	say("4097 bytes: %lu", (unsigned long)segment_state(segment_of(4097)).shm_segsz);
}

CASE(shm_get_size_absurd)
{
	say("SIZE_MAX: %s", refused(shmget(IPC_PRIVATE, SIZE_MAX, 0600)));
	say("SIZE_MAX / 2: %s", refused(shmget(IPC_PRIVATE, SIZE_MAX / 2, 0600)));
}

CASE(shm_get_fresh_state)
{
	struct shmid_ds ds = segment_state(segment_of(777));
	say("size %lu, attaches %lu", (unsigned long)ds.shm_segsz, (unsigned long)ds.shm_nattch);
	say("atime %s, dtime %s, ctime %s", when(ds.shm_atime), when(ds.shm_dtime),
		when(ds.shm_ctime));
	say("cpid %s, lpid %s", who(ds.shm_cpid, 0), who(ds.shm_lpid, 0));
	say("owner is me: %s", yes(ds.shm_perm.uid == geteuid() && ds.shm_perm.gid == getegid()));
	say("creator is me: %s",
		yes(ds.shm_perm.cuid == geteuid() && ds.shm_perm.cgid == getegid()));
	say("mode %o, key %d", ds.shm_perm.mode, ds.shm_perm.__key);
}

CASE(shm_get_mode)
{
	umask(0777);
	int a = track_segment(shmget(IPC_PRIVATE, 1, 0640));
	say("0640 under umask 0777: %o", segment_state(a).shm_perm.mode);
	int b = track_segment(shmget(IPC_PRIVATE, 1, 0));
	say("0: made %s", made(b));
}

CASE(shm_get_noreserve)
{
	int a = track_segment(shmget(IPC_PRIVATE, 1 << 20, SHM_NORESERVE | 0600));
	say("%s, mode %o", made(a), segment_state(a).shm_perm.mode);
}

CASE(shm_get_zeroed)
{
	enum { BYTES = 3 * PAGE + 100 };
	bool zero = true;
	for (int round = 0; round < 4; round++) {
		int a = segment_of(BYTES);
		char *at = attach(a);
		for (int i = 0; i < 4 * PAGE; i++)
			zero = zero && at[i] == 0;
		memset(at, 0xff, 4 * PAGE);
		shmdt(at);
		shmctl(a, IPC_RMID, NULL);
	}
	say("four segments one after the other read as zeros: %s", yes(zero));
}

CASE(shm_get_again_after_removal)
{
	key_t key = fresh_key();
	int a = track_segment(shmget(key, PAGE, IPC_CREAT | 0600));
	say("removal: %s", got(shmctl(a, IPC_RMID, NULL)));
	say("open by key: %s", got(shmget(key, PAGE, 0)));
	int b = track_segment(shmget(key, PAGE, IPC_CREAT | IPC_EXCL | 0600));
	say("created again: %s, another id: %s", made(b), yes(a != b));
	struct shmid_ds ds;
	say("the old id: %s", got(shmctl(a, IPC_STAT, &ds)));
	say("attach by the old id: %s", got((long)shmat(a, NULL, 0)));
	say("the new id: %s", got(shmctl(b, IPC_STAT, &ds)));
}

CASE(shm_get_ids_not_reused_soon)
{
	int last = -1;
	bool fresh = true;
	for (int i = 0; i < 100; i++) {
		int a = segment_of(1);
		fresh = fresh && a != last;
		last = a;
		shmctl(a, IPC_RMID, NULL);
	}
	say("100 made and removed, each unlike the one before: %s", yes(fresh));
}

struct race {
	key_t key;
	volatile int *tally;
};

static void race_to_create(void *context)
{
	struct race *r = context;
	while (!r->tally[0])
		;
	if (track_segment(shmget(r->key, PAGE, IPC_CREAT | IPC_EXCL | 0600)) != -1)
		__sync_fetch_and_add(&r->tally[1], 1);
	else if (errno == EEXIST)
		__sync_fetch_and_add(&r->tally[2], 1);
}

CASE(shm_get_excl_race)
{
	struct race r = { fresh_key(), shared_ints() };
	pid_t children[6];
	for (int i = 0; i < 6; i++)
		children[i] = start(race_to_create, &r);
	r.tally[0] = 1;
	for (int i = 0; i < 6; i++)
		finish(children[i]);
	say("of 6 at once, %d created, %d got EEXIST", r.tally[1], r.tally[2]);
}

CASE(shm_get_many)
{
	int made_count = 0;
	for (int i = 0; i < 200; i++)
		made_count += segment_of(PAGE) != -1;
	say("200 at once: %d", made_count);
}

/* Permissions, sysvipc(7): owner, group, others; who may change and remove; what root may.
 *
 * Cases with two users need root and are skipped otherwise; cases about one ordinary user run as
 * nobody under root, and as the caller otherwise. */
#include "case.h"

#include <grp.h>

enum { PAGE = 4096 };

static int segment_mode(int mode) { return track_segment(shmget(IPC_PRIVATE, PAGE, mode)); }
static int set_mode(int mode) { return track_set(semget(IPC_PRIVATE, 2, mode)); }
static int queue_mode(int mode) { return track_queue(msgget(IPC_PRIVATE, mode)); }

static void try_segment(void *context)
{
	int a = *(int *)context;
	struct shmid_ds ds;
	say("attach: %s", made((long)shmat(a, NULL, 0)));
	say("attach read-only: %s", made((long)shmat(a, NULL, SHM_RDONLY)));
	say("IPC_STAT: %s", got(shmctl(a, IPC_STAT, &ds)));
	memset(&ds, 0, sizeof ds);
	say("IPC_SET: %s", got(shmctl(a, IPC_SET, &ds)));
	say("SHM_LOCK: %s", got(shmctl(a, SHM_LOCK, NULL)));
	say("IPC_RMID: %s", got(shmctl(a, IPC_RMID, NULL)));
}

static void other_tries_segment(int mode)
{
	int a = segment_mode(mode);
	as_nobody(try_segment, &a);
}

CASE(perm_shm_other_0600) { other_tries_segment(0600); }
CASE(perm_shm_other_0604) { other_tries_segment(0604); }
CASE(perm_shm_other_0602) { other_tries_segment(0602); }
CASE(perm_shm_other_0606) { other_tries_segment(0606); }
CASE(perm_shm_other_0660) { other_tries_segment(0660); }

static void try_set(void *context)
{
	int a = *(int *)context;
	struct semid_ds ds;
	unsigned short values[2] = { 0, 0 };
	say("zero operation: %s", got(step(a, 0, 0, IPC_NOWAIT)));
	say("+1: %s", got(step(a, 0, 1, IPC_NOWAIT)));
	say("array of zero and +1: %s",
		got(semop(a, (struct sembuf[]) { { 0, 0, IPC_NOWAIT }, { 1, 1, 0 } }, 2)));
	say("GETVAL: %s", got(semctl(a, 1, GETVAL)));
	say("GETALL: %s", got(semctl(a, 0, GETALL, (union semun) { .array = values })));
	say("GETNCNT: %s", got(semctl(a, 0, GETNCNT)));
	say("GETPID: %s", made(semctl(a, 0, GETPID)));
	say("SETVAL: %s", got(semctl(a, 0, SETVAL, (union semun) { .val = 0 })));
	say("SETALL: %s", got(semctl(a, 0, SETALL, (union semun) { .array = values })));
	say("IPC_STAT: %s", got(semctl(a, 0, IPC_STAT, (union semun) { .buf = &ds })));
	memset(&ds, 0, sizeof ds);
	say("IPC_SET: %s", got(semctl(a, 0, IPC_SET, (union semun) { .buf = &ds })));
	say("IPC_RMID: %s", got(semctl(a, 0, IPC_RMID)));
}

static void other_tries_set(int mode)
{
	int a = set_mode(mode);
	as_nobody(try_set, &a);
}

CASE(perm_sem_other_0600) { other_tries_set(0600); }
CASE(perm_sem_other_0604) { other_tries_set(0604); }
CASE(perm_sem_other_0602) { other_tries_set(0602); }
CASE(perm_sem_other_0606) { other_tries_set(0606); }

static void try_queue(void *context)
{
	int q = *(int *)context;
	struct message m;
	struct msqid_ds ds;
	say("send: %s", got(put(q, 1, "x", IPC_NOWAIT)));
	say("receive: %s", got(take(q, &m, 100, 0, IPC_NOWAIT)));
	say("IPC_STAT: %s", got(msgctl(q, IPC_STAT, &ds)));
	memset(&ds, 0, sizeof ds);
	say("IPC_SET: %s", got(msgctl(q, IPC_SET, &ds)));
	say("IPC_RMID: %s", got(msgctl(q, IPC_RMID, NULL)));
}

static void other_tries_queue(int mode)
{
	int q = queue_mode(mode);
	put(q, 1, "root's", 0);
	as_nobody(try_queue, &q);
}

CASE(perm_msg_other_0600) { other_tries_queue(0600); }
CASE(perm_msg_other_0604) { other_tries_queue(0604); }
CASE(perm_msg_other_0602) { other_tries_queue(0602); }
CASE(perm_msg_other_0606) { other_tries_queue(0606); }

/* ---- opening by key ---- */

static void open_by_key(void *context)
{
	key_t key = *(key_t *)context;
	static const int modes[] = { 0, 0400, 0200, 0600, 0004, 0002, 0040 };
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
		say("shmget %04o: %s", modes[i], made(shmget(key, 0, modes[i])));
		say("semget %04o: %s", modes[i], made(semget(key, 0, modes[i])));
		say("msgget %04o: %s", modes[i], made(msgget(key, modes[i])));
	}
	say("shmget IPC_CREAT|0600: %s", made(shmget(key, PAGE, IPC_CREAT | 0600)));
	say("shmget IPC_CREAT|IPC_EXCL|0600: %s",
		made(shmget(key, PAGE, IPC_CREAT | IPC_EXCL | 0600)));
}

static void all_three(key_t key, int mode)
{
	track_segment(shmget(key, PAGE, IPC_CREAT | mode));
	track_set(semget(key, 1, IPC_CREAT | mode));
	track_queue(msgget(key, IPC_CREAT | mode));
}

static void other_opens(int mode)
{
	key_t key = fresh_key();
	all_three(key, mode);
	as_nobody(open_by_key, &key);
}

CASE(perm_open_other_0600) { other_opens(0600); }
CASE(perm_open_other_0604) { other_opens(0604); }
CASE(perm_open_other_0606) { other_opens(0606); }

static void size_before_permission(void *context)
{
	key_t key = *(key_t *)context;
	say("shmget too large, no permission: %s", got(shmget(key, 100 * PAGE, 0600)));
	say("semget too many, no permission: %s", got(semget(key, 100, 0600)));
}

CASE(perm_open_error_order)
{
	key_t key = fresh_key();
	all_three(key, 0600);
	as_nobody(size_before_permission, &key);
}

/* ---- an ordinary owner without permission ---- */

static void own_segment_without_permission(void *context)
{
	(void)context;
	int a = segment_mode(0066);
	struct shmid_ds ds;
	say("attach: %s", made((long)shmat(a, NULL, 0)));
	say("IPC_STAT: %s", got(shmctl(a, IPC_STAT, &ds)));
	memset(&ds, 0, sizeof ds);
	ds.shm_perm.mode = 0600;
	ds.shm_perm.uid = geteuid();
	ds.shm_perm.gid = getegid();
	say("IPC_SET: %s", got(shmctl(a, IPC_SET, &ds)));
	say("attach: %s", made((long)shmat(a, NULL, 0)));
	say("with SHM_EXEC: %s", made((long)shmat(a, NULL, SHM_EXEC)));
	ds.shm_perm.mode = 0700;
	shmctl(a, IPC_SET, &ds);
	say("with SHM_EXEC at 0700: %s", made((long)shmat(a, NULL, SHM_EXEC)));
	say("IPC_RMID: %s", got(shmctl(a, IPC_RMID, NULL)));
}

CASE(perm_shm_owner_without) { as_ordinary(own_segment_without_permission, NULL); }

static void own_readonly_segment(void *context)
{
	(void)context;
	int a = segment_mode(0400);
	say("read-only: %s", made((long)shmat(a, NULL, SHM_RDONLY)));
	say("for writing: %s", made((long)shmat(a, NULL, 0)));
	int b = segment_mode(0200);
	say("mode 0200, read-only: %s", made((long)shmat(b, NULL, SHM_RDONLY)));
	say("mode 0200, for writing: %s", made((long)shmat(b, NULL, 0)));
}

CASE(perm_shm_owner_one_way) { as_ordinary(own_readonly_segment, NULL); }

static void own_set_without_permission(void *context)
{
	(void)context;
	int a = set_mode(0400);
	say("0400: zero operation: %s", got(step(a, 0, 0, IPC_NOWAIT)));
	say("0400: +1: %s", got(step(a, 0, 1, 0)));
	say("0400: GETVAL: %s", got(semctl(a, 0, GETVAL)));
	say("0400: SETVAL: %s", got(semctl(a, 0, SETVAL, (union semun) { .val = 1 })));
	int b = set_mode(0200);
	say("0200: zero operation: %s", got(step(b, 0, 0, IPC_NOWAIT)));
	say("0200: +1: %s", got(step(b, 0, 1, 0)));
	say("0200: GETVAL: %s", got(semctl(b, 0, GETVAL)));
	say("0200: SETVAL: %s", got(semctl(b, 0, SETVAL, (union semun) { .val = 1 })));
	say("0200: IPC_RMID: %s", got(semctl(b, 0, IPC_RMID)));
}

CASE(perm_sem_owner_one_way) { as_ordinary(own_set_without_permission, NULL); }

static void own_queue_without_permission(void *context)
{
	(void)context;
	struct message m;
	int a = queue_mode(0400), b = queue_mode(0200);
	say("0400: send: %s", got(put(a, 1, "x", IPC_NOWAIT)));
	say("0400: receive: %s", got(take(a, &m, 100, 0, IPC_NOWAIT)));
	say("0200: send: %s", got(put(b, 1, "x", IPC_NOWAIT)));
	say("0200: receive: %s", got(take(b, &m, 100, 0, IPC_NOWAIT)));
}

CASE(perm_msg_owner_one_way) { as_ordinary(own_queue_without_permission, NULL); }

static void open_own_with_more(void *context)
{
	(void)context;
	key_t key = fresh_key();
	all_three(key, 0400);
	say("shmget 0600 of one's own 0400: %s", got(shmget(key, 0, 0600)));
	say("semget 0600 of one's own 0400: %s", got(semget(key, 0, 0600)));
	say("msgget 0600 of one's own 0400: %s", got(msgget(key, 0600)));
	say("shmget 0400: %s", made(shmget(key, 0, 0400)));
}

CASE(perm_open_own_with_more) { as_ordinary(open_own_with_more, NULL); }

static void raise_limit(void *context)
{
	(void)context;
	int q = queue_mode(0600);
	struct msqid_ds ds = queue_state(q);
	ds.msg_qbytes *= 2;
	say("above MSGMNB: %s", got(msgctl(q, IPC_SET, &ds)));
	ds.msg_qbytes = 100;
	say("down to 100: %s", got(msgctl(q, IPC_SET, &ds)));
	ds.msg_qbytes = 200;
	say("up to 200: %s", got(msgctl(q, IPC_SET, &ds)));
}

CASE(perm_msg_limit_ordinary) { as_ordinary(raise_limit, NULL); }

CASE(perm_msg_limit_root)
{
	if (geteuid() != 0)
		skip("needs root");
	raise_limit(NULL);
}

/* ---- root ---- */

CASE(perm_root_needs_no_mode)
{
	if (geteuid() != 0)
		skip("needs root");
	struct message m;
	int a = segment_mode(0), s = set_mode(0), q = queue_mode(0);
	say("attach: %s", made((long)shmat(a, NULL, 0)));
	say("attach to execute: %s", made((long)shmat(a, NULL, SHM_EXEC)));
	say("+1: %s", got(step(s, 0, 1, 0)));
	say("GETVAL: %s", got(semctl(s, 0, GETVAL)));
	say("send: %s", got(put(q, 1, "x", 0)));
	say("receive: %s", got(take(q, &m, 100, 0, 0)));
}

static void make_for_root(void *context)
{
	int *ids = context;
	ids[0] = segment_mode(0600);
	ids[1] = set_mode(0600);
	ids[2] = queue_mode(0600);
}

CASE(perm_root_over_others)
{
	int *ids = (int *)shared_ints();
	as_nobody(make_for_root, ids);
	struct shmid_ds ds = segment_state(ids[0]);
	say("owner is the other: %s", yes(ds.shm_perm.uid == NOBODY && ds.shm_perm.cgid == NOBODY));
	say("attach: %s", made((long)shmat(ids[0], NULL, 0)));
	say("+1: %s", got(step(ids[1], 0, 1, 0)));
	say("send: %s", got(put(ids[2], 1, "x", 0)));
	say("remove: %s", got(shmctl(ids[0], IPC_RMID, NULL)));
	say("remove: %s", got(semctl(ids[1], 0, IPC_RMID)));
	say("remove: %s", got(msgctl(ids[2], IPC_RMID, NULL)));
}

/* ---- giving away ---- */

CASE(perm_give_segment_away)
{
	if (geteuid() != 0)
		skip("needs root");
	int a = segment_mode(0600);
	struct shmid_ds ds = segment_state(a);
	ds.shm_perm.uid = NOBODY;
	ds.shm_perm.gid = NOBODY;
	say("IPC_SET: %s", got(shmctl(a, IPC_SET, &ds)));
	ds = segment_state(a);
	say("uid %u, gid %u, cuid %u, cgid %u", ds.shm_perm.uid, ds.shm_perm.gid, ds.shm_perm.cuid,
		ds.shm_perm.cgid);
	as_nobody(try_segment, &a);
}

CASE(perm_give_set_away)
{
	if (geteuid() != 0)
		skip("needs root");
	int a = set_mode(0600);
	struct semid_ds ds = set_state(a);
	ds.sem_perm.uid = NOBODY;
	say("IPC_SET: %s", got(semctl(a, 0, IPC_SET, (union semun) { .buf = &ds })));
	as_nobody(try_set, &a);
}

CASE(perm_give_queue_away)
{
	if (geteuid() != 0)
		skip("needs root");
	int q = queue_mode(0600);
	struct msqid_ds ds = queue_state(q);
	ds.msg_perm.uid = NOBODY;
	say("IPC_SET: %s", got(msgctl(q, IPC_SET, &ds)));
	as_nobody(try_queue, &q);
}

static void give_to_another(void *context)
{
	int *id = context;
	*id = segment_mode(0600);
	struct shmid_ds ds = segment_state(*id);
	ds.shm_perm.uid = 4321;
	say("the owner gives it to another: %s", got(shmctl(*id, IPC_SET, &ds)));
	say("attach, as creator: %s", made((long)shmat(*id, NULL, 0)));
	say("IPC_SET, as creator: %s", got(shmctl(*id, IPC_SET, &ds)));
	say("IPC_RMID, as creator: %s", got(shmctl(*id, IPC_RMID, NULL)));
}

CASE(perm_creator_keeps_rights) { as_ordinary(give_to_another, (void *)shared_ints()); }

/* ---- groups ---- */

struct membership {
	int segment;
	gid_t primary;
	gid_t supplementary;
	uid_t user;
};

static void try_as_member(void *context)
{
	struct membership *m = context;
	if (setgroups(m->supplementary != 0, &m->supplementary) != 0 || setgid(m->primary) != 0
	        || setuid(m->user) != 0)
		broken("becoming a member");
	say("attach: %s", made((long)shmat(m->segment, NULL, 0)));
	say("attach read-only: %s", made((long)shmat(m->segment, NULL, SHM_RDONLY)));
}

static void group_tries(int mode, gid_t primary, gid_t supplementary)
{
	if (geteuid() != 0)
		skip("needs root");
	struct membership m = { segment_mode(mode), primary, supplementary, 4321 };
	struct shmid_ds ds = segment_state(m.segment);
	ds.shm_perm.gid = 5000;
	shmctl(m.segment, IPC_SET, &ds);
	finish(start(try_as_member, &m));
}

CASE(perm_group_0660) { group_tries(0660, 5000, 0); }
CASE(perm_group_0640) { group_tries(0640, 5000, 0); }
CASE(perm_group_supplementary) { group_tries(0660, 6000, 5000); }
CASE(perm_group_not_a_member) { group_tries(0660, 6000, 7000); }
CASE(perm_group_less_than_others) { group_tries(0606, 5000, 0); }

static void lose_identity(void *context)
{
	int *ids = context;
	char *at = attach(ids[0]);
	if (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
		broken("becoming another user");
	at[0] = 'k';
	say("what was attached before setuid stays: %c", at[0]);
	say("attach again: %s", made((long)shmat(ids[0], NULL, 0)));
	say("+1: %s", got(step(ids[1], 0, 1, 0)));
	say("detach: %s", got(shmdt(at)));
}

CASE(perm_checked_at_each_call)
{
	if (geteuid() != 0)
		skip("needs root");
	int ids[2] = { segment_mode(0600), set_mode(0600) };
	finish(start(lose_identity, ids));
}

static void effective_counts(void *context)
{
	int a = *(int *)context;
	if (seteuid(NOBODY) != 0)
		broken("seteuid");
	say("as another effective user: %s", made((long)shmat(a, NULL, 0)));
	int b = track_segment(shmget(IPC_PRIVATE, PAGE, 0600));
	say("made as another: uid %u", segment_state(b).shm_perm.uid);
	if (seteuid(0) != 0)
		broken("seteuid back");
	say("back: %s", made((long)shmat(a, NULL, 0)));
}

CASE(perm_effective_user_counts)
{
	if (geteuid() != 0)
		skip("needs root");
	int a = segment_mode(0600);
	finish(start(effective_counts, &a));
}

struct undo_scene {
	int set;
};

static void hold_then_lose_rights(void *context)
{
	int set = ((struct undo_scene *)context)->set;
	say("-1 with SEM_UNDO: %s", got(step(set, 0, -1, SEM_UNDO)));
	if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
		broken("becoming another user");
}

CASE(perm_undo_needs_no_permission)
{
	if (geteuid() != 0)
		skip("needs root");
	struct undo_scene u = { set_mode(0600) };
	set_value(u.set, 0, 1);
	finish(start(hold_then_lose_rights, &u));
	while (value(u.set, 0) != 1)
		;
	say("given back: %d", value(u.set, 0));
}

static void wait_without_rights(void *context)
{ say("the waiter: %s", got(step(*(int *)context, 0, -1, 0))); }

CASE(perm_taken_from_a_waiter)
{
	/* Checked when the call begins, not when it wakes. */
	int a = set_mode(0606);
	if (geteuid() != 0)
		skip("needs root");
	pid_t child = fork();
	if (child == 0) {
		if (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
			broken("becoming another user");
		wait_without_rights(&a);
		_exit(0);
	}
	await_waiters(a, 0, GETNCNT, 1, child);
	struct semid_ds ds = set_state(a);
	ds.sem_perm.mode = 0600;
	say("mode to 0600: %s", got(semctl(a, 0, IPC_SET, (union semun) { .buf = &ds })));
	step(a, 0, 1, 0);
	finish(child);
}

/* msgget(2) and msgctl(2): queues, their state and limits. */
#include "case.h"

CASE(msg_get_private_distinct)
{
	int a = queue_of(), b = queue_of();
	say("two private queues differ: %s, not negative: %s", yes(a != b), yes(a >= 0 && b >= 0));
}

CASE(msg_get_by_key)
{
	key_t key = fresh_key();
	say("missing: %s", got(msgget(key, 0)));
	int a = track_queue(msgget(key, IPC_CREAT | 0600));
	say("create: %s", made(a));
	say("open: same %s", yes(msgget(key, 0) == a));
	say("open with IPC_CREAT: same %s", yes(msgget(key, IPC_CREAT | 0600) == a));
	say("IPC_EXCL: %s", got(msgget(key, IPC_CREAT | IPC_EXCL | 0600)));
	say("key in the state: %s", yes(queue_state(a).msg_perm.__key == key));
}

CASE(msg_get_fresh_state)
{
	struct msqid_ds ds = queue_state(track_queue(msgget(IPC_PRIVATE, 0640)));
	struct msginfo limits = { 0 };
	msgctl(0, IPC_INFO, (void *)&limits);
	say("messages %lu, bytes %lu, limit is MSGMNB: %s", (unsigned long)ds.msg_qnum,
		(unsigned long)ds.__msg_cbytes, yes(ds.msg_qbytes == (msglen_t)limits.msgmnb));
	say("stime %s, rtime %s, ctime %s", when(ds.msg_stime), when(ds.msg_rtime),
		when(ds.msg_ctime));
	say("lspid %s, lrpid %s", who(ds.msg_lspid, 0), who(ds.msg_lrpid, 0));
	say("owner is me: %s, mode %o, key %d",
		yes(ds.msg_perm.uid == geteuid() && ds.msg_perm.cgid == getegid()),
		ds.msg_perm.mode, ds.msg_perm.__key);
}

CASE(msg_get_removed)
{
	key_t key = fresh_key();
	struct message m = { .type = 1 };
	int a = track_queue(msgget(key, IPC_CREAT | 0600));
	put(a, 1, "lost", 0);
	say("remove: %s", got(msgctl(a, IPC_RMID, NULL)));
	say("open: %s", got(msgget(key, 0)));
	say("msgsnd: %s", got(msgsnd(a, &m, 0, 0)));
	say("msgrcv: %s", got(msgrcv(a, &m, 0, 0, 0)));
	say("remove again: %s", got(msgctl(a, IPC_RMID, NULL)));
	int b = track_queue(msgget(key, IPC_CREAT | IPC_EXCL | 0600));
	say("made again: %s, another id: %s, messages %lu", made(b), yes(a != b),
		(unsigned long)queue_state(b).msg_qnum);
}

CASE(msg_get_many)
{
	int n = 0;
	for (int i = 0; i < 100; i++)
		n += queue_of() != -1;
	say("100 at once: %d", n);
}

CASE(msg_ctl_errors)
{
	int a = queue_of();
	struct msqid_ds ds;
	say("unknown command: %s", got(msgctl(a, 4711, &ds)));
	say("negative command: %s", got(msgctl(a, -1, &ds)));
	say("IPC_STAT of -1: %s", got(msgctl(-1, IPC_STAT, &ds)));
	say("IPC_RMID of -1: %s", got(msgctl(-1, IPC_RMID, NULL)));
	say("IPC_STAT to a bad pointer: %s", got(msgctl(a, IPC_STAT, (void *)16)));
	say("IPC_SET from a bad pointer: %s", got(msgctl(a, IPC_SET, (void *)16)));
}

CASE(msg_ctl_set)
{
	int a = queue_of();
	struct msqid_ds ds = queue_state(a);
	ds.msg_perm.mode = 0177640;
	ds.msg_qbytes = 1000;
	ds.msg_qnum = 77;
	say("%s", got(msgctl(a, IPC_SET, &ds)));
	ds = queue_state(a);
	say("mode %o, limit %lu, messages %lu, ctime %s", ds.msg_perm.mode,
		(unsigned long)ds.msg_qbytes, (unsigned long)ds.msg_qnum, when(ds.msg_ctime));
}

CASE(msg_ctl_info)
{
	struct msginfo i = { 0 };
	int a = queue_of();
	put(a, 1, "abc", 0);
	int highest = msgctl(0, IPC_INFO, (void *)&i);
	say("IPC_INFO: %s", highest >= 0 ? "not negative" : got(highest));
	say("msgmni > 0: %s, msgmax > 0: %s, msgmnb > 0: %s", yes(i.msgmni > 0), yes(i.msgmax > 0),
		yes(i.msgmnb > 0));
	highest = msgctl(0, MSG_INFO, (void *)&i);
	say("MSG_INFO: %s, queues > 0: %s, messages > 0: %s, bytes >= 3: %s",
		highest >= 0 ? "not negative" : got(highest), yes(i.msgpool > 0), yes(i.msgmap > 0),
		yes(i.msgtql >= 3));
	say("to a bad pointer: %s", got(msgctl(0, IPC_INFO, (void *)16)));
}

static int index_of(int id, int command, struct msqid_ds *ds)
{
	struct msginfo i;
	int highest = msgctl(0, MSG_INFO, (void *)&i);
	for (int at = 0; at <= highest; at++)
		if (msgctl(at, command, ds) == id)
			return at;
	return -1;
}

CASE(msg_ctl_stat_by_index)
{
	int a = queue_of();
	struct msqid_ds ds = { 0 };
	put(a, 1, "abcde", 0);
	say("found by MSG_STAT: %s", yes(index_of(a, MSG_STAT, &ds) >= 0));
	say("messages %lu, bytes %lu", (unsigned long)ds.msg_qnum, (unsigned long)ds.__msg_cbytes);
	ds.msg_qnum = 0;
	say("found by MSG_STAT_ANY: %s", yes(index_of(a, MSG_STAT_ANY, &ds) >= 0));
	say("messages %lu", (unsigned long)ds.msg_qnum);
	say("negative index: %s", got(msgctl(-1, MSG_STAT, &ds)));
}

static void look_from_outside(void *context)
{
	struct msqid_ds ds;
	int a = *(int *)context;
	say("IPC_STAT: %s", got(msgctl(a, IPC_STAT, &ds)));
	say("MSG_STAT: found %s", yes(index_of(a, MSG_STAT, &ds) >= 0));
	say("MSG_STAT_ANY: found %s", yes(index_of(a, MSG_STAT_ANY, &ds) >= 0));
}

CASE(msg_ctl_stat_any_needs_no_permission)
{
	int a = queue_of();
	as_nobody(look_from_outside, &a);
}

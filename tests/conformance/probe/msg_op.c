/* msgsnd(2) and msgrcv(2) that do not sleep: types, flags, errors, state. */
#include "case.h"

enum { ROOM = 16384 };

static void say_taken(int queue, const char *how, long type, int flags)
{
	struct message m;
	ssize_t n = take(queue, &m, ROOM, type, flags | IPC_NOWAIT);
	if (n == -1)
		say("%s: %s", how, got(-1));
	else
		say("%s: type %ld, %zd bytes '%.20s'", how, m.type, n, m.text);
}

/* a1 b3 c2 d3 e1 f2 */
static int filled_queue(void)
{
	int q = queue_of();
	static const long types[] = { 1, 3, 2, 3, 1, 2 };
	for (int i = 0; i < 6; i++)
		put(q, types[i], (char[]) { (char)('a' + i), 0 }, 0);
	return q;
}

static void drain(int q)
{
	struct message m;
	char all[64] = "";
	size_t n = 0;
	while (n < 60 && take(q, &m, ROOM, 0, IPC_NOWAIT) >= 0)
		all[n++] = m.text[0];
	say("what is left, in order: %s", all);
}

CASE(msg_round_trip)
{
	int q = queue_of();
	say("send: %s", got(put(q, 7, "hello", 0)));
	say_taken(q, "receive", 0, 0);
	say_taken(q, "receive again", 0, 0);
}

CASE(msg_in_order) { drain(filled_queue()); }

CASE(msg_positive_type)
{
	int q = filled_queue();
	say_taken(q, "2", 2, 0);
	say_taken(q, "3", 3, 0);
	say_taken(q, "3", 3, 0);
	say_taken(q, "3", 3, 0);
	say_taken(q, "99", 99, 0);
	drain(q);
}

CASE(msg_negative_type)
{
	int q = filled_queue();
	for (int i = 0; i < 5; i++)
		say_taken(q, "-2", -2, 0);
	drain(q);
}

CASE(msg_negative_type_takes_lowest_first)
{
	int q = queue_of();
	put(q, 5, "five", 0);
	put(q, 3, "three", 0);
	put(q, 4, "four", 0);
	put(q, 3, "three again", 0);
	for (int i = 0; i < 5; i++)
		say_taken(q, "-5", -5, 0);
}

CASE(msg_extreme_types)
{
	int q = queue_of();
	say("LONG_MAX: %s", got(put(q, LONG_MAX, "largest", 0)));
	say_taken(q, "-LONG_MAX + 1", -LONG_MAX + 1, 0);
	say_taken(q, "LONG_MIN", LONG_MIN, 0);
	put(q, LONG_MAX, "largest", 0);
	say_taken(q, "LONG_MAX", LONG_MAX, 0);
}

CASE(msg_send_bad_type)
{
	int q = queue_of();
	say("0: %s", got(put(q, 0, "x", 0)));
	say("-1: %s", got(put(q, -1, "x", 0)));
	say("LONG_MIN: %s", got(put(q, LONG_MIN, "x", 0)));
	say("messages %lu", (unsigned long)queue_state(q).msg_qnum);
}

CASE(msg_except)
{
	int q = filled_queue();
	say_taken(q, "not 1", 1, MSG_EXCEPT);
	say_taken(q, "not 3", 3, MSG_EXCEPT);
	say_taken(q, "not 1", 1, MSG_EXCEPT);
	say_taken(q, "not 99", 99, MSG_EXCEPT);
	drain(q);
}

CASE(msg_except_other_types)
{
	int q = filled_queue();
	say_taken(q, "MSG_EXCEPT with 0", 0, MSG_EXCEPT);
	say_taken(q, "MSG_EXCEPT with -2", -2, MSG_EXCEPT);
	drain(q);
}

CASE(msg_except_all)
{
	int q = queue_of();
	put(q, 4, "x", 0);
	say_taken(q, "not 4, and there are only 4s", 4, MSG_EXCEPT);
}

CASE(msg_empty_message)
{
	int q = queue_of();
	struct message m = { .type = 3 };
	say("send 0 bytes: %s", got(msgsnd(q, &m, 0, 0)));
	struct msqid_ds ds = queue_state(q);
	say("messages %lu, bytes %lu", (unsigned long)ds.msg_qnum, (unsigned long)ds.__msg_cbytes);
	say("receive into 0 bytes: %s", got(msgrcv(q, &m, 0, 0, IPC_NOWAIT)));
}

CASE(msg_too_big_to_take)
{
	int q = queue_of();
	struct message m;
	put(q, 1, "0123456789", 0);
	say("into 9 bytes: %s", got(take(q, &m, 9, 0, 0)));
	say("into 0 bytes: %s", got(take(q, &m, 0, 0, 0)));
	say("messages %lu", (unsigned long)queue_state(q).msg_qnum);
	say("into 10 bytes: %s", got(take(q, &m, 10, 0, 0)));
	say("%s", m.text);
}

CASE(msg_too_big_first_of_two)
{
	int q = queue_of();
	struct message m;
	put(q, 1, "0123456789", 0);
	put(q, 1, "ab", 0);
	say("into 5 bytes, a fitting one behind it: %s", got(take(q, &m, 5, 1, 0)));
	say("messages %lu, lrpid %s", (unsigned long)queue_state(q).msg_qnum,
		who(queue_state(q).msg_lrpid, 0));
}

CASE(msg_noerror)
{
	int q = queue_of();
	struct message m;
	put(q, 1, "0123456789", 0);
	say("into 4 bytes: %s", got(take(q, &m, 4, 0, MSG_NOERROR)));
	say("'%s', messages %lu", m.text, (unsigned long)queue_state(q).msg_qnum);
	put(q, 1, "0123456789", 0);
	say("into 10 bytes: %s", got(take(q, &m, 10, 0, MSG_NOERROR)));
	put(q, 1, "0123456789", 0);
	say("into 0 bytes: %s", got(take(q, &m, 0, 0, MSG_NOERROR)));
	say("messages %lu", (unsigned long)queue_state(q).msg_qnum);
}

CASE(msg_receive_touches_no_more)
{
	int q = queue_of();
	struct message m;
	put(q, 1, "abc", 0);
	memset(&m, '#', sizeof m);
	say("%s", got(msgrcv(q, &m, 100, 0, 0)));
	m.text[5] = 0;
	say("type %ld, '%s'", m.type, m.text);
}

CASE(msg_nowait)
{
	int q = queue_of();
	struct message m;
	say("empty: %s", got(take(q, &m, ROOM, 0, IPC_NOWAIT)));
	say("empty, by type: %s", got(take(q, &m, ROOM, 5, IPC_NOWAIT)));
	say("empty, negative: %s", got(take(q, &m, ROOM, -5, IPC_NOWAIT)));
	say("send with IPC_NOWAIT where there is room: %s", got(put(q, 1, "x", IPC_NOWAIT)));
}

CASE(msg_sizes)
{
	struct msginfo limits = { 0 };
	msgctl(0, IPC_INFO, (void *)&limits);
	size_t most = (size_t)limits.msgmax;
	struct message *m = calloc(1, most + 64);
	int q = queue_of();
	m->type = 1;
	say("MSGMAX: %s", got(msgsnd(q, m, most, IPC_NOWAIT)));
	say("MSGMAX + 1: %s", got(msgsnd(q, m, most + 1, IPC_NOWAIT)));
	say("SIZE_MAX: %s", got(msgsnd(q, m, SIZE_MAX, IPC_NOWAIT)));
	say("SIZE_MAX / 2: %s", got(msgsnd(q, m, SIZE_MAX / 2, IPC_NOWAIT)));
	say("receive SIZE_MAX: %s", got(msgrcv(q, m, SIZE_MAX, 0, IPC_NOWAIT)));
	say("receive more than MSGMAX: yields MSGMAX %s",
		yes(msgrcv(q, m, most + 50, 0, IPC_NOWAIT) == (ssize_t)most));
	free(m);
}

CASE(msg_all_lengths)
{
	int q = queue_of();
	static struct message out, in;
	int wrong = 0;
	for (size_t n = 0; n <= 8192; n += n < 200 ? 1 : 333) {
		out.type = 1 + (long)n;
		for (size_t i = 0; i < n; i++)
			out.text[i] = (char)(i * 13 + n);
		if (msgsnd(q, &out, n, IPC_NOWAIT) != 0)
			wrong++;
		memset(&in, 0, sizeof in);
		if (msgrcv(q, &in, ROOM, 0, IPC_NOWAIT) != (ssize_t)n || in.type != out.type
		        || memcmp(in.text, out.text, n) != 0)
			wrong++;
	}
	say("lengths from 0 to 8192: %d wrong", wrong);
}

CASE(msg_errors)
{
	int q = queue_of();
	struct message m = { .type = 1 };
	say("send to -1: %s", got(msgsnd(-1, &m, 1, 0)));
	say("receive from -1: %s", got(msgrcv(-1, &m, 1, 0, 0)));
	say("send to INT_MAX: %s", got(msgsnd(INT_MAX, &m, 1, 0)));
	say("send from a bad pointer: %s", got(msgsnd(q, (void *)16, 1, 0)));
	say("send from NULL: %s", got(msgsnd(q, NULL, 1, 0)));
	say("send from a bad pointer to -1: %s", got(msgsnd(-1, (void *)16, 1, 0)));
	say("messages %lu", (unsigned long)queue_state(q).msg_qnum);
}

CASE(msg_send_from_a_page_that_ends)
{
	int q = queue_of();
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(page + 4096, 4096, PROT_NONE);
	long *at = (void *)(page + 4096 - 16);
	*at = 1;
	say("8 bytes, to the end: %s", got(msgsnd(q, at, 8, 0)));
	say("9 bytes, past the end: %s", got(msgsnd(q, at, 9, 0)));
	say("messages %lu", (unsigned long)queue_state(q).msg_qnum);
}

CASE(msg_receive_to_bad_pointer)
{
	int q = queue_of();
	put(q, 1, "lost", 0);
	put(q, 1, "next", 0);
	say("%s", got(msgrcv(q, (void *)16, 100, 0, 0)));
	say("messages %lu", (unsigned long)queue_state(q).msg_qnum);
	say_taken(q, "then", 0, 0);
	say("empty queue: %s", got(msgrcv(q, (void *)16, 100, 0, IPC_NOWAIT)));
}

CASE(msg_state)
{
	int q = queue_of();
	struct message m;
	put(q, 1, "abc", 0);
	put(q, 1, "defgh", 0);
	struct msqid_ds ds = queue_state(q);
	say("messages %lu, bytes %lu, stime %s, rtime %s, lspid %s, lrpid %s",
		(unsigned long)ds.msg_qnum, (unsigned long)ds.__msg_cbytes, when(ds.msg_stime),
		when(ds.msg_rtime), who(ds.msg_lspid, 0), who(ds.msg_lrpid, 0));
	take(q, &m, ROOM, 0, 0);
	ds = queue_state(q);
	say("messages %lu, bytes %lu, stime %s, rtime %s, lspid %s, lrpid %s",
		(unsigned long)ds.msg_qnum, (unsigned long)ds.__msg_cbytes, when(ds.msg_stime),
		when(ds.msg_rtime), who(ds.msg_lspid, 0), who(ds.msg_lrpid, 0));
}

static void send_one(void *context) { put(*(int *)context, 1, "from the child", 0); }

static void take_one(void *context)
{
	struct message m;
	take(*(int *)context, &m, ROOM, 0, 0);
}

CASE(msg_pids_of_children)
{
	int q = queue_of();
	pid_t sender = start(send_one, &q);
	finish(sender);
	say("lspid is the sender: %s", yes(queue_state(q).msg_lspid == sender));
	pid_t receiver = start(take_one, &q);
	finish(receiver);
	struct msqid_ds ds = queue_state(q);
	say("lspid is the sender: %s, lrpid is the receiver: %s", yes(ds.msg_lspid == sender),
		yes(ds.msg_lrpid == receiver));
}

CASE(msg_outlives_sender)
{
	int q = queue_of();
	finish(start(send_one, &q));
	say_taken(q, "received", 0, 0);
}

CASE(msg_full_by_bytes)
{
	int q = queue_of();
	static struct message m = { .type = 1 };
	struct msqid_ds ds = queue_state(q);
	ds.msg_qbytes = 16384;
	msgctl(q, IPC_SET, &ds);
	say("8192: %s", got(msgsnd(q, &m, 8192, IPC_NOWAIT)));
	say("8192 more: %s", got(msgsnd(q, &m, 8192, IPC_NOWAIT)));
	say("1 more: %s", got(msgsnd(q, &m, 1, IPC_NOWAIT)));
	say("0 more: %s", got(msgsnd(q, &m, 0, IPC_NOWAIT)));
	take_one(&q);
	say("after one is taken: %s", got(msgsnd(q, &m, 8192, IPC_NOWAIT)));
}

CASE(msg_full_by_count)
{
	int q = queue_of();
	struct message m = { .type = 1 };
	struct msqid_ds ds = queue_state(q);
	ds.msg_qbytes = 16384;
	msgctl(q, IPC_SET, &ds);
	int n = 0;
	while (n < 20000 && msgsnd(q, &m, 0, IPC_NOWAIT) == 0)
		n++;
	say("empty messages: %d, then %s", n, got(-1));
	ds = queue_state(q);
	say("messages %lu, bytes %lu", (unsigned long)ds.msg_qnum, (unsigned long)ds.__msg_cbytes);
	int taken = 0;
	while (msgrcv(q, &m, 0, 0, IPC_NOWAIT) == 0)
		taken++;
	say("taken: %d", taken);
}

CASE(msg_small_limit)
{
	int q = queue_of();
	struct msqid_ds ds = queue_state(q);
	ds.msg_qbytes = 10;
	say("limit 10: %s", got(msgctl(q, IPC_SET, &ds)));
	say("11 bytes: %s", got(put(q, 1, "01234567890", IPC_NOWAIT)));
	say("6 bytes: %s", got(put(q, 1, "012345", IPC_NOWAIT)));
	say("5 bytes: %s", got(put(q, 1, "01234", IPC_NOWAIT)));
	say("4 bytes: %s", got(put(q, 1, "0123", IPC_NOWAIT)));
	ds.msg_qbytes = 0;
	say("limit 0: %s", got(msgctl(q, IPC_SET, &ds)));
	say("0 bytes: %s", got(put(q, 1, "", IPC_NOWAIT)));
	say_taken(q, "what is in it can be taken", 0, 0);
}

CASE(msg_limit_below_contents)
{
	int q = queue_of();
	put(q, 1, "0123456789", 0);
	struct msqid_ds ds = queue_state(q);
	ds.msg_qbytes = 5;
	say("%s", got(msgctl(q, IPC_SET, &ds)));
	say("send: %s", got(put(q, 1, "", IPC_NOWAIT)));
	say_taken(q, "receive", 0, 0);
	say("send: %s", got(put(q, 1, "01234", IPC_NOWAIT)));
}

/* ---- MSG_COPY ---- */

CASE(msg_copy)
{
	int q = filled_queue();
	say_taken(q, "copy of 0", 0, MSG_COPY);
	say_taken(q, "copy of 3", 3, MSG_COPY);
	say_taken(q, "copy of 5", 5, MSG_COPY);
	say_taken(q, "copy of 6", 6, MSG_COPY);
	say_taken(q, "copy of -1", -1, MSG_COPY);
	drain(q);
}

CASE(msg_copy_errors)
{
	int q = filled_queue();
	struct message m;
	say("without IPC_NOWAIT: %s", got(take(q, &m, ROOM, 0, MSG_COPY)));
	say("with MSG_EXCEPT: %s", got(take(q, &m, ROOM, 0, MSG_COPY | MSG_EXCEPT | IPC_NOWAIT)));
	say("too small: %s", got(take(q, &m, 0, 0, MSG_COPY | IPC_NOWAIT)));
	say("too small with MSG_NOERROR: %s",
		got(take(q, &m, 0, 0, MSG_COPY | MSG_NOERROR | IPC_NOWAIT)));
	drain(q);
}

CASE(msg_copy_of_long_into_short)
{
	int q = queue_of();
	struct message m;
	put(q, 9, "0123456789", 0);
	say("into 4 bytes: %s", got(take(q, &m, 4, 0, MSG_COPY | IPC_NOWAIT)));
	say("with MSG_NOERROR: %s", got(take(q, &m, 4, 0, MSG_COPY | MSG_NOERROR | IPC_NOWAIT)));
	say("type %ld, '%s'", m.type, m.text);
	say("messages %lu, lrpid %s, rtime %s", (unsigned long)queue_state(q).msg_qnum,
		who(queue_state(q).msg_lrpid, 0), when(queue_state(q).msg_rtime));
}

CASE(msg_unknown_flags)
{
	int q = queue_of();
	struct message m;
	say("send: %s", got(put(q, 1, "x", 0x100)));
	say("receive: %s", got(take(q, &m, ROOM, 0, 0x200)));
}

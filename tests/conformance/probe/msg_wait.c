/* msgsnd(2) and msgrcv(2) that sleep: who is woken, and what ends the wait. */
#include "case.h"

#include <pthread.h>
#include <sys/syscall.h>

enum { ROOM = 16384 };

struct receiver {
	int queue;
	long type;
	int flags;
	size_t room;
	const char *name;
	volatile int *result; /* for those woken together: 0 or an errno */
};

static void receive(void *context)
{
	struct receiver *r = context;
	struct message m;
	ssize_t n = take(r->queue, &m, r->room, r->type, r->flags);
	if (r->result)
		*r->result = n == -1 ? errno : 0;
	else if (n == -1)
		say("%s: %s", r->name, got(-1));
	else
		say("%s: type %ld, %zd bytes '%.20s'", r->name, m.type, n, m.text);
}

static struct receiver receiver_of(int queue, long type, const char *name)
{ return (struct receiver) { queue, type, 0, ROOM, name, NULL }; }

static pid_t receiving(struct receiver *r)
{
	pid_t child = start(receive, r);
	await_asleep(child);
	return child;
}

struct sender {
	int queue;
	long type;
	const char *text;
	const char *name;
	volatile int *result;
};

static void send(void *context)
{
	struct sender *s = context;
	int r = put(s->queue, s->type, s->text, 0);
	if (s->result)
		*s->result = r == -1 ? errno : 0;
	else
		say("%s: %s", s->name, got(r));
}

static pid_t sending(struct sender *s)
{
	pid_t child = start(send, s);
	await_asleep(child);
	return child;
}

static void limit(int q, unsigned long bytes)
{
	struct msqid_ds ds = queue_state(q);
	ds.msg_qbytes = bytes;
	if (msgctl(q, IPC_SET, &ds) != 0)
		broken("IPC_SET");
}

static int full_queue(void)
{
	int q = queue_of();
	limit(q, 10);
	put(q, 1, "0123456789", 0);
	return q;
}

static void drop_one(int q)
{
	struct message m;
	if (take(q, &m, ROOM, 0, IPC_NOWAIT) == -1)
		broken("nothing to take");
}

static const char *outcome(int result) { return result == 0 ? "0" : errno_name(result); }

CASE(msg_wait_receiver)
{
	struct receiver r = receiver_of(queue_of(), 0, "receiver");
	pid_t child = receiving(&r);
	put(r.queue, 4, "for you", 0);
	finish(child);
	struct msqid_ds ds = queue_state(r.queue);
	say("messages %lu, lrpid %s, rtime %s", (unsigned long)ds.msg_qnum,
		who(ds.msg_lrpid, child), when(ds.msg_rtime));
}

CASE(msg_wait_receiver_by_type)
{
	struct receiver r = receiver_of(queue_of(), 2, "receiver of 2");
	pid_t child = receiving(&r);
	put(r.queue, 1, "one", 0);
	put(r.queue, 3, "three", 0);
	await_asleep(child);
	say("still waiting, messages %lu", (unsigned long)queue_state(r.queue).msg_qnum);
	put(r.queue, 2, "two", 0);
	finish(child);
	say("messages %lu", (unsigned long)queue_state(r.queue).msg_qnum);
}

CASE(msg_wait_receiver_negative)
{
	struct receiver r = receiver_of(queue_of(), -5, "receiver of -5");
	pid_t child = receiving(&r);
	put(r.queue, 6, "six", 0);
	await_asleep(child);
	put(r.queue, 5, "five", 0);
	finish(child);
}

CASE(msg_wait_receiver_except)
{
	struct receiver r = receiver_of(queue_of(), 1, "receiver of all but 1");
	r.flags = MSG_EXCEPT;
	pid_t child = receiving(&r);
	put(r.queue, 1, "one", 0);
	await_asleep(child);
	put(r.queue, 2, "two", 0);
	finish(child);
}

CASE(msg_wait_receivers_first_come)
{
	struct receiver a = receiver_of(queue_of(), 0, "first"),
			b = receiver_of(a.queue, 0, "second");
	pid_t first = receiving(&a), second = receiving(&b);
	put(a.queue, 1, "message 1", 0);
	finish(first);
	put(a.queue, 1, "message 2", 0);
	finish(second);
}

CASE(msg_wait_receivers_of_their_types)
{
	struct receiver a = receiver_of(queue_of(), 1, "of 1"), b = receiver_of(a.queue, 2, "of 2");
	pid_t one = receiving(&a), two = receiving(&b);
	put(a.queue, 2, "two", 0);
	finish(two);
	put(a.queue, 1, "one", 0);
	finish(one);
}

CASE(msg_wait_message_goes_to_the_waiter)
{
	/* The send hands it over: nobody can take it away afterwards. */
	struct receiver r = receiver_of(queue_of(), 0, "receiver");
	volatile int *result = shared_ints();
	r.result = result;
	bool always = true;
	struct message m;
	for (int i = 0; i < 20; i++) {
		pid_t child = receiving(&r);
		put(r.queue, 1, "x", 0);
		always = always && take(r.queue, &m, ROOM, 0, IPC_NOWAIT) == -1
		        && queue_state(r.queue).msg_qnum == 0;
		finish(child);
		always = always && *result == 0;
	}
	say("right after the send nothing is left: %s", yes(always));
}

CASE(msg_wait_receiver_too_small)
{
	struct receiver r = receiver_of(queue_of(), 0, "receiver with room for 2");
	r.room = 2;
	pid_t child = receiving(&r);
	put(r.queue, 1, "three", 0);
	finish(child);
	say("messages %lu", (unsigned long)queue_state(r.queue).msg_qnum);
}

CASE(msg_wait_receiver_too_small_then_another)
{
	struct receiver a = receiver_of(queue_of(), 0, "small"),
			b = receiver_of(a.queue, 0, "large");
	volatile int *results = shared_ints();
	a.room = 2;
	a.result = results;
	b.result = results + 1;
	pid_t small = receiving(&a), large = receiving(&b);
	put(a.queue, 1, "three", 0);
	finish(small);
	finish(large);
	say("small: %s, large: %s, messages %lu", outcome(results[0]), outcome(results[1]),
		(unsigned long)queue_state(a.queue).msg_qnum);
}

CASE(msg_wait_receiver_truncates)
{
	struct receiver r = receiver_of(queue_of(), 0, "receiver with MSG_NOERROR");
	r.room = 2;
	r.flags = MSG_NOERROR;
	pid_t child = receiving(&r);
	put(r.queue, 1, "three", 0);
	finish(child);
}

CASE(msg_wait_removed)
{
	volatile int *results = shared_ints();
	struct receiver a = receiver_of(queue_of(), 0, "a"), b = receiver_of(a.queue, 5, "b");
	a.result = results;
	b.result = results + 1;
	pid_t one = receiving(&a), two = receiving(&b);
	say("remove: %s", got(msgctl(a.queue, IPC_RMID, NULL)));
	finish(one);
	finish(two);
	say("receivers: %s, %s", outcome(results[0]), outcome(results[1]));
}

CASE(msg_wait_sender)
{
	struct sender s = { full_queue(), 2, "waited", "sender", NULL };
	pid_t child = sending(&s);
	say("messages %lu", (unsigned long)queue_state(s.queue).msg_qnum);
	drop_one(s.queue);
	finish(child);
	struct msqid_ds ds = queue_state(s.queue);
	say("messages %lu, bytes %lu, lspid %s", (unsigned long)ds.msg_qnum,
		(unsigned long)ds.__msg_cbytes, who(ds.msg_lspid, child));
}

CASE(msg_wait_sender_limit_raised)
{
	struct sender s = { full_queue(), 2, "waited", "sender", NULL };
	pid_t child = sending(&s);
	limit(s.queue, 100);
	finish(child);
	say("messages %lu", (unsigned long)queue_state(s.queue).msg_qnum);
}

CASE(msg_wait_sender_removed)
{
	struct sender s = { full_queue(), 2, "waited", "sender", NULL };
	pid_t child = sending(&s);
	msgctl(s.queue, IPC_RMID, NULL);
	finish(child);
}

CASE(msg_wait_sender_large_does_not_block_small)
{
	struct sender large = { queue_of(), 2, "01234567", "large", NULL },
		      small = { large.queue, 3, "ab", "small", NULL };
	limit(large.queue, 10);
	put(large.queue, 1, "01234", 0);
	pid_t child = sending(&large);
	send(&small);
	drop_one(large.queue);
	finish(child);
	say("messages %lu", (unsigned long)queue_state(large.queue).msg_qnum);
}

CASE(msg_wait_senders_all_come_through)
{
	volatile int *results = shared_ints();
	struct sender s[4];
	pid_t children[4];
	int q = full_queue();
	struct message m;
	for (int i = 0; i < 4; i++) {
		s[i] = (struct sender) { q, 2 + i, "0123456789", "", results + i };
		children[i] = sending(&s[i]);
	}
	long types = 0;
	for (int i = 0; i < 5; i++)
		if (take(q, &m, ROOM, 0, 0) == 10)
			types += m.type;
	for (int i = 0; i < 4; i++)
		finish(children[i]);
	say("five received, their types add up to %ld, messages %lu", types,
		(unsigned long)queue_state(q).msg_qnum);
}

CASE(msg_wait_sender_impossible)
{
	/* Longer than the queue's limit but within MSGMAX: it waits; it is no error. */
	struct sender s = { queue_of(), 2, "01234567890", "sender", NULL };
	limit(s.queue, 10);
	pid_t child = sending(&s);
	say("messages %lu", (unsigned long)queue_state(s.queue).msg_qnum);
	limit(s.queue, 11);
	finish(child);
}

/* ---- signals ---- */

static void quiet(int signal) { (void)signal; }

static void signalled_receiver(int flags)
{
	struct receiver r = receiver_of(queue_of(), 0, "receiver");
	handle(SIGUSR1, quiet, flags);
	pid_t child = receiving(&r);
	kill(child, SIGUSR1);
	finish(child);
	put(r.queue, 1, "stays", 0);
	say("messages %lu", (unsigned long)queue_state(r.queue).msg_qnum);
}

CASE(msg_wait_receiver_handler) { signalled_receiver(0); }
CASE(msg_wait_receiver_handler_sa_restart) { signalled_receiver(SA_RESTART); }

static void signalled_sender(int flags)
{
	struct sender s = { full_queue(), 2, "waited", "sender", NULL };
	handle(SIGUSR1, quiet, flags);
	pid_t child = sending(&s);
	kill(child, SIGUSR1);
	finish(child);
	drop_one(s.queue);
	say("messages %lu", (unsigned long)queue_state(s.queue).msg_qnum);
}

CASE(msg_wait_sender_handler) { signalled_sender(0); }
CASE(msg_wait_sender_handler_sa_restart) { signalled_sender(SA_RESTART); }

CASE(msg_wait_receiver_ignored_signal)
{
	struct receiver r = receiver_of(queue_of(), 0, "receiver");
	signal(SIGUSR1, SIG_IGN);
	pid_t child = receiving(&r);
	kill(child, SIGUSR1);
	await_asleep(child);
	put(r.queue, 1, "later", 0);
	finish(child);
}

static void stop_and_continue(pid_t child)
{
	int status;
	kill(child, SIGSTOP);
	if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status))
		broken("the child did not stop");
	kill(child, SIGCONT);
	if (waitpid(child, &status, WCONTINUED) != child)
		broken("the child did not go on");
}

CASE(msg_wait_receiver_stop_and_continue)
{
	struct receiver r = receiver_of(queue_of(), 0, "receiver after SIGSTOP and SIGCONT");
	pid_t child = receiving(&r);
	stop_and_continue(child);
	put(r.queue, 1, "later", 0);
	finish(child);
}

CASE(msg_wait_sender_stop_and_continue)
{
	struct sender s = { full_queue(), 2, "waited", "sender after SIGSTOP and SIGCONT", NULL };
	pid_t child = sending(&s);
	stop_and_continue(child);
	drop_one(s.queue);
	finish(child);
}

CASE(msg_wait_receiver_sigkill)
{
	struct receiver r = receiver_of(queue_of(), 0, "receiver");
	stop_by(receiving(&r), SIGKILL);
	put(r.queue, 1, "not for the dead", 0);
	r.flags = IPC_NOWAIT;
	receive(&r);
}

CASE(msg_wait_sender_sigkill)
{
	struct sender s = { full_queue(), 2, "waited", "sender", NULL };
	stop_by(sending(&s), SIGKILL);
	drop_one(s.queue);
	say("messages %lu", (unsigned long)queue_state(s.queue).msg_qnum);
	send(&s);
}

static int handler_queue;
static volatile long handler_sees[3];

static void looks_in_handler(int signal)
{
	struct message m;
	(void)signal;
	handler_sees[0] = put(handler_queue, 9, "from the handler", IPC_NOWAIT);
	handler_sees[1] = take(handler_queue, &m, ROOM, 9, IPC_NOWAIT);
	handler_sees[2] = (long)queue_state(handler_queue).msg_qnum;
}

CASE(msg_wait_calls_in_handler)
{
	struct receiver r = receiver_of(queue_of(), 1, "receiver");
	handler_queue = r.queue;
	handle(SIGUSR1, looks_in_handler, 0);
	pid_t child = start(receive, &r);
	await_asleep(child);
	kill(child, SIGUSR1);
	finish(child);
	raise(SIGUSR1);
	say("in a handler: send %ld, receive %ld, messages %ld", handler_sees[0], handler_sees[1],
		handler_sees[2]);
}

/* ---- threads, and many messages ---- */

struct thread_receiver {
	int queue;
	volatile pid_t thread;
	ssize_t result;
	struct message m;
};

static void *receive_in_thread(void *context)
{
	struct thread_receiver *r = context;
	r->thread = (pid_t)syscall(SYS_gettid);
	r->result = take(r->queue, &r->m, ROOM, 0, 0);
	return NULL;
}

CASE(msg_wait_threads_of_one_process)
{
	static struct thread_receiver r[2];
	pthread_t t[2];
	r[0].queue = r[1].queue = queue_of();
	for (int i = 0; i < 2; i++) {
		pthread_create(&t[i], NULL, receive_in_thread, &r[i]);
		while (r[i].thread == 0)
			;
		await_thread_asleep(r[i].thread);
	}
	put(r[0].queue, 1, "first", 0);
	put(r[0].queue, 1, "second", 0);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	say("%s, %s", r[0].m.text, r[1].m.text);
}

static void send_many(void *context)
{
	int q = *(int *)context;
	char text[32];
	for (int i = 0; i < turns(3000); i++) {
		snprintf(text, sizeof text, "%d", i);
		put(q, 1 + i % 3, text, 0);
	}
}

CASE(msg_many_in_order)
{
	int q = queue_of(), wrong = 0, next[4] = { 0, 0, 1, 2 };
	struct message m;
	limit(q, 200);
	pid_t child = start(send_many, &q);
	for (int i = 0; i < turns(3000); i++) {
		if (take(q, &m, 31, -3, 0) == -1 || atoi(m.text) != next[m.type])
			wrong++;
		next[m.type] += 3;
	}
	finish(child);
	say("3000 through a queue of 200 bytes: %d wrong, messages %lu", wrong,
		(unsigned long)queue_state(q).msg_qnum);
}

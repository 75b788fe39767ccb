/* Waits that end just as they begin, before their caller can be asleep: by a signal, by the end of
 * the object, and by what is not for them. Each at many distances from the beginning of the call.
 */
#include "case.h"

#include <sys/time.h>

enum { ROUNDS = 150, FURTHEST = 97 };

static void quiet(int signal) { (void)signal; }

/* A signal after so many microseconds; then again and again, for it may come before the call. */
static void ring_soon(int round)
{
	struct itimerval soon = { { 0, 2000 }, { 0, 1 + round * 7 % FURTHEST } };
	setitimer(ITIMER_REAL, &soon, NULL);
}

static void ring_no_more(void)
{
	struct itimerval never = { 0 };
	setitimer(ITIMER_REAL, &never, NULL);
}

static int ends_by_signal(long (*wait)(int id), int id)
{
	int ended = 0;
	handle(SIGALRM, quiet, 0);
	for (int round = 0; round < turns(ROUNDS); round++) {
		ring_soon(round);
		errno = 0;
		ended += wait(id) == -1 && errno == EINTR;
		ring_no_more();
	}
	return ended;
}

static long take_the_second_type(int queue)
{
	struct message m;
	return take(queue, &m, sizeof m.text, 2, 0);
}

static long step_down(int set) { return step(set, 0, -1, 0); }

static long step_down_undoably(int set) { return step(set, 0, -1, SEM_UNDO); }

CASE(wait_begun_message_signal)
{
	int q = queue_of();
	put(q, 1, "for another", 0);
	say("%d of %d ended by a signal", ends_by_signal(take_the_second_type, q), turns(ROUNDS));
	say("messages %lu", (unsigned long)queue_state(q).msg_qnum);
}

CASE(wait_begun_semaphore_signal)
{
	int set = set_of(1);
	say("%d of %d ended by a signal", ends_by_signal(step_down, set), turns(ROUNDS));
	say("%d of %d with SEM_UNDO", ends_by_signal(step_down_undoably, set), turns(ROUNDS));
	say("ncnt %d, value %d", asked(set, 0, GETNCNT), value(set, 0));
}

struct removal {
	int id, round;
	volatile int *begun;
	void (*remove)(int id);
};

static void remove_soon(void *context)
{
	struct removal *r = context;
	while (!*r->begun)
		;
	for (volatile int i = 0; i < r->round * 40; i++)
		;
	r->remove(r->id);
}

static void remove_queue(int id) { msgctl(id, IPC_RMID, NULL); }

static void remove_set(int id) { semctl(id, 0, IPC_RMID); }

/* How many waits have ended with the object: EINVAL is that of one that it was gone before. */
static int ends_by_removal(int (*make)(void), void (*remove)(int id), long (*wait)(int id))
{
	int ended = 0;
	volatile int *begun = shared_ints();
	for (int round = 0; round < turns(ROUNDS) / 3; round++) {
		struct removal r = { make(), round, begun, remove };
		*r.begun = 0;
		pid_t child = start(remove_soon, &r);
		*r.begun = 1;
		ended += wait(r.id) == -1 && (errno == EIDRM || errno == EINVAL);
		finish(child);
	}
	return ended;
}

static int set_of_one(void) { return set_of(1); }

CASE(wait_begun_message_removal)
{
	say("%d of %d ended", ends_by_removal(queue_of, remove_queue, take_the_second_type),
		turns(ROUNDS) / 3);
}

CASE(wait_begun_semaphore_removal)
{ say("%d of %d ended", ends_by_removal(set_of_one, remove_set, step_down), turns(ROUNDS) / 3); }

struct sender {
	int queue, round;
	volatile int *begun;
};

static void send_another_and_then_its_own(void *context)
{
	struct sender *s = context;
	while (!*s->begun)
		;
	for (volatile int i = 0; i < s->round * 20; i++)
		;
	put(s->queue, 1, "for another", 0);
	for (volatile int i = 0; i < s->round * 20; i++)
		;
	put(s->queue, 2, "its own", 0);
}

CASE(wait_begun_message_of_another_type)
{
	int q = queue_of(), own = 0, others = 0;
	struct message m;
	volatile int *begun = shared_ints();
	for (int round = 0; round < turns(ROUNDS) / 3; round++) {
		struct sender s = { q, round, begun };
		*s.begun = 0;
		pid_t child = start(send_another_and_then_its_own, &s);
		*s.begun = 1;
		own += take(q, &m, sizeof m.text, 2, 0) == 7 && m.type == 2;
		others += take(q, &m, sizeof m.text, 1, 0) == 11 && m.type == 1;
		finish(child);
	}
	say("%d of its own, %d of another's; messages %lu", own, others,
		(unsigned long)queue_state(q).msg_qnum);
}

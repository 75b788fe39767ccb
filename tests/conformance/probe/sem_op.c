/* semop(2) that does not sleep: arrays, order, errors, state. */
#include "case.h"

#define OPS(set, ...)                                 \
	semop(set, (struct sembuf[]) { __VA_ARGS__ }, \
		sizeof((struct sembuf[]) { __VA_ARGS__ }) / sizeof(struct sembuf))

CASE(sem_op_add_take)
{
	int a = set_of(1);
	say("+3: %s", got(step(a, 0, 3, 0)));
	say("value %d", value(a, 0));
	say("-2: %s", got(step(a, 0, -2, 0)));
	say("value %d", value(a, 0));
	say("-2 with IPC_NOWAIT: %s", got(step(a, 0, -2, IPC_NOWAIT)));
	say("value %d", value(a, 0));
}

CASE(sem_op_zero)
{
	int a = set_of(1);
	say("at 0: %s", got(step(a, 0, 0, 0)));
	step(a, 0, 1, 0);
	say("at 1 with IPC_NOWAIT: %s", got(step(a, 0, 0, IPC_NOWAIT)));
}

CASE(sem_op_array_in_order)
{
	int a = set_of(1);
	say("{+1,-1} from 0: %s", got(OPS(a, { 0, 1, 0 }, { 0, -1, 0 })));
	say("{-1,+1} from 0: %s", got(OPS(a, { 0, -1, IPC_NOWAIT }, { 0, 1, 0 })));
	say("{0,+1}: %s", got(OPS(a, { 0, 0, IPC_NOWAIT }, { 0, 1, 0 })));
	say("{-1,0}: %s", got(OPS(a, { 0, -1, IPC_NOWAIT }, { 0, 0, IPC_NOWAIT })));
	say("{+1,0}: %s", got(OPS(a, { 0, 1, 0 }, { 0, 0, IPC_NOWAIT })));
	say("{+5,-3,+1,-2}: %s", got(OPS(a, { 0, 5, 0 }, { 0, -3, 0 }, { 0, 1, 0 }, { 0, -2, 0 })));
	say("value %d", value(a, 0));
}

CASE(sem_op_array_atomic)
{
	int a = set_of(3);
	set_value(a, 0, 1);
	say("{0:-1, 1:-1, 2:+1}: %s",
		got(OPS(a, { 0, -1, IPC_NOWAIT }, { 1, -1, IPC_NOWAIT }, { 2, 1, 0 })));
	say("values %d %d %d", value(a, 0), value(a, 1), value(a, 2));
	set_value(a, 1, 1);
	say("the same when it can: %s", got(OPS(a, { 0, -1, 0 }, { 1, -1, 0 }, { 2, 1, 0 })));
	say("values %d %d %d", value(a, 0), value(a, 1), value(a, 2));
}

CASE(sem_op_nowait_on_the_blocking_one)
{
	int a = set_of(2);
	/* The flag of the operation that cannot go on decides. */
	say("flag on the one that blocks: %s", got(OPS(a, { 1, 1, 0 }, { 0, -1, IPC_NOWAIT })));
	say("values %d %d", value(a, 0), value(a, 1));
}

CASE(sem_op_errors)
{
	int a = set_of(2);
	struct sembuf one = { 0, 1, 0 };
	say("none: %s", got(semop(a, &one, 0)));
	say("number 2: %s", got(step(a, 2, 1, 0)));
	say("number 65535: %s", got(step(a, 65535, 1, 0)));
	say("second one bad: %s", got(OPS(a, { 0, 1, 0 }, { 7, 1, 0 })));
	say("value %d", value(a, 0));
	say("bad pointer: %s", got(semop(a, (void *)16, 1)));
	say("NULL: %s", got(semop(a, NULL, 1)));
	say("NULL and none: %s", got(semop(a, NULL, 0)));
	say("id -1: %s", got(semop(-1, &one, 1)));
	say("id -1 and none: %s", got(semop(-1, &one, 0)));
	say("id INT_MAX: %s", got(semop(INT_MAX, &one, 1)));
	say("bad pointer and bad id: %s", got(semop(-1, (void *)16, 1)));
}

CASE(sem_op_too_many)
{
	struct seminfo limits;
	semctl(0, 0, IPC_INFO, (union semun) { .info = &limits });
	size_t n = (size_t)limits.semopm;
	struct sembuf *ops = calloc(n + 1, sizeof *ops);
	for (size_t i = 0; i <= n; i++)
		ops[i] = (struct sembuf) { 0, i % 2 ? -1 : 1, 0 };
	int a = set_of(1);
	say("SEMOPM: %s", got(semop(a, ops, n)));
	say("value %d", value(a, 0));
	say("SEMOPM + 1: %s", got(semop(a, ops, n + 1)));
	say("SIZE_MAX: %s", got(semop(a, ops, SIZE_MAX)));
	say("SEMOPM + 1 with a bad id: %s", got(semop(-1, ops, n + 1)));
	say("value %d", value(a, 0));
	free(ops);
}

CASE(sem_op_range)
{
	int a = set_of(2);
	set_value(a, 0, 32766);
	say("to 32767: %s", got(step(a, 0, 1, 0)));
	say("above: %s", got(step(a, 0, 1, 0)));
	say("32767 more: %s", got(step(a, 0, 32767, 0)));
	say("with IPC_NOWAIT: %s", got(step(a, 0, 1, IPC_NOWAIT)));
	say("value %d", value(a, 0));
	say("after another in the array: %s", got(OPS(a, { 1, 5, 0 }, { 0, 1, 0 })));
	say("values %d %d", value(a, 0), value(a, 1));
	say("over and back in one array: %s", got(OPS(a, { 0, 1, 0 }, { 0, -1, 0 })));
	say("-32768: %s", got(step(a, 0, -32768, IPC_NOWAIT)));
}

CASE(sem_op_pid)
{
	int a = set_of(4);
	OPS(a, { 0, 1, 0 }, { 1, 0, 0 });
	say("after {0:+1, 1:0}: %s %s %s", who(asked(a, 0, GETPID), 0), who(asked(a, 1, GETPID), 0),
		who(asked(a, 2, GETPID), 0));
	step(a, 3, -1, IPC_NOWAIT);
	say("after one that failed: %s", who(asked(a, 3, GETPID), 0));
}

static void add_one(void *context) { step(*(int *)context, 0, 1, 0); }

CASE(sem_op_pid_of_child)
{
	int a = set_of(1);
	pid_t child = start(add_one, &a);
	finish(child);
	say("%s", who(asked(a, 0, GETPID), child));
	step(a, 0, 1, 0);
	say("then %s", who(asked(a, 0, GETPID), child));
}

CASE(sem_op_times)
{
	int a = set_of(1);
	step(a, 0, -1, IPC_NOWAIT);
	say("after a failed one: otime %s", when(set_state(a).sem_otime));
	step(a, 0, 0, 0);
	say("after a zero: otime %s", when(set_state(a).sem_otime));
	int b = set_of(1);
	step(b, 0, 1, 0);
	say("after +1: otime %s", when(set_state(b).sem_otime));
}

CASE(sem_op_unknown_flags)
{
	int a = set_of(1);
	say("%s", got(step(a, 0, 1, 0x2000)));
	say("value %d", value(a, 0));
}

struct contest {
	int set;
	volatile int *counter;
	int rounds;
};

static void count_under_lock(void *context)
{
	struct contest *c = context;
	for (int i = 0; i < c->rounds; i++) {
		step(c->set, 0, -1, 0);
		int n = *c->counter;
		*c->counter = n + 1;
		step(c->set, 0, 1, 0);
	}
}

CASE(sem_op_mutual_exclusion)
{
	struct contest c = { set_of(1), shared_ints(), 500 };
	set_value(c.set, 0, 1);
	pid_t children[4];
	for (int i = 0; i < 4; i++)
		children[i] = start(count_under_lock, &c);
	for (int i = 0; i < 4; i++)
		finish(children[i]);
	say("4 x 500 under a lock: %d, value %d", *c.counter, value(c.set, 0));
}

struct diner {
	int set, seat;
};

static void dine(void *context)
{
	struct diner *d = context;
	unsigned short left = (unsigned short)d->seat, right = (unsigned short)((d->seat + 1) % 5);
	for (int i = 0; i < 200; i++) {
		OPS(d->set, { left, -1, 0 }, { right, -1, 0 });
		OPS(d->set, { right, 1, 0 }, { left, 1, 0 });
	}
}

CASE(sem_op_dining)
{
	/* Both forks in one array: without atomic arrays this deadlocks sooner or later. */
	struct diner d[5];
	int a = set_of(5);
	pid_t children[5];
	for (int i = 0; i < 5; i++)
		set_value(a, i, 1);
	for (int i = 0; i < 5; i++) {
		d[i] = (struct diner) { a, i };
		children[i] = start(dine, &d[i]);
	}
	for (int i = 0; i < 5; i++)
		finish(children[i]);
	say("five philosophers have eaten: %d %d %d %d %d", value(a, 0), value(a, 1), value(a, 2),
		value(a, 3), value(a, 4));
}

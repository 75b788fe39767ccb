/* Round trips between two processes over System V IPC: a segment polled in user space (by sequence
 * numbers, one shared flag, or P and V by the bakery algorithm), the kernel's semaphores, or a
 * queue; messages that go one way; and POSIX queues, or POSIX semaphores or a condition
 * variable in the segment. */
#include <errno.h>
#include <mqueue.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>

#include "bakery.h"
#include "rendezvous.h"
#include "run.h"
#include "ticks.h"

/* One direction: the sequence number and, for small payloads, the payload share a cache line, so
 * that a message of 56 bytes or less moves as one line. The number is stored last and read first.
 */
struct lane {
	_Alignas(64) _Atomic uint64_t sequence;
	unsigned char payload[];
};

/* In the segment: two semaphores; or whose turn it is, under a mutex. */
struct meeting {
	sem_t to_pong, to_ping;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	int turn;
};

struct transport {
	const struct run *run;
	struct meeting *meeting;
	struct lane *out, *in;
	_Atomic uint64_t *flag;         /* raw: odd after a ping, even after a pong */
	struct bakery *posted, *awaited; /* sync: V on one, P on the other */
	int place;                      /* of the two customers of the bakery */
	unsigned char
		*own; /* the program's buffer, outside the segment: each side copies in and out */
	struct {
		long type;
		unsigned char payload[];
	} *message;
};

static int object = -1; /* semaphore set or queue: the first role's to remove */
static int object_is_set;

static void remove_object(void)
{
	if (object != -1
	        && (object_is_set ? semctl(object, 0, IPC_RMID) : msgctl(object, IPC_RMID, NULL))
	                != 0)
		fprintf(stderr, "removal of the transport's object failed: %s\n", strerror(errno));
	object = -1;
}

static void await_number(_Atomic uint64_t *word, uint64_t number)
{
	for (unsigned spins = 1; atomic_load_explicit(word, memory_order_acquire) != number;
		spins++)
		spin(spins);
}

static void await(struct lane *lane, uint64_t sequence) { await_number(&lane->sequence, sequence); }

static void shm_ping(void *context, uint64_t first, uint64_t count)
{
	struct transport *t = context;
	for (uint64_t i = first + 1; i <= first + count; i++) {
		memcpy(t->out->payload, t->own, t->run->size);
		atomic_store_explicit(&t->out->sequence, i, memory_order_release);
		await(t->in, i);
		memcpy(t->own, t->in->payload, t->run->size);
	}
}

static void shm_pong(struct transport *t)
{
	for (uint64_t i = 1, last = total_rounds(t->run); i <= last; i++, rounds_done++) {
		await(t->in, i);
		memcpy(t->own, t->in->payload, t->run->size);
		memcpy(t->out->payload, t->own, t->run->size);
		atomic_store_explicit(&t->out->sequence, i, memory_order_release);
	}
}

static void raw_ping(void *context, uint64_t first, uint64_t count)
{
	struct transport *t = context;
	for (uint64_t i = first; i < first + count; i++) {
		atomic_store_explicit(t->flag, 2 * i + 1, memory_order_release);
		await_number(t->flag, 2 * i + 2);
	}
}

static void raw_pong(struct transport *t)
{
	for (uint64_t i = 0, last = total_rounds(t->run); i < last; i++, rounds_done++) {
		await_number(t->flag, 2 * i + 1);
		atomic_store_explicit(t->flag, 2 * i + 2, memory_order_release);
	}
}

static void sync_ping(void *context, uint64_t first, uint64_t count)
{
	struct transport *t = context;
	(void)first;
	while (count--) {
		memcpy(t->out->payload, t->own, t->run->size);
		bakery_v(t->posted, t->place);
		bakery_p(t->awaited, t->place);
		memcpy(t->own, t->in->payload, t->run->size);
	}
}

static void sync_pong(struct transport *t)
{
	for (uint64_t count = total_rounds(t->run); count--; rounds_done++) {
		bakery_p(t->awaited, t->place);
		memcpy(t->own, t->in->payload, t->run->size);
		memcpy(t->out->payload, t->own, t->run->size);
		bakery_v(t->posted, t->place);
	}
}

/* What the second role does before it answers: works for --delay. */
static void think(const struct run *run)
{
	static uint64_t delay;
	if (run->delay == 0)
		return;
	if (delay == 0)
		delay = (uint64_t)((double)run->delay / ns_per_tick());
	for (uint64_t began = ticks(); ticks() - began < delay && !deadline_passed;)
		relax();
}

static void step(unsigned short semaphore, short by)
{
	struct sembuf operation = { .sem_num = semaphore, .sem_op = by };
	while (semop(object, &operation, 1) != 0)
		if (errno != EINTR || deadline_passed)
			give_up_call("semop");
}

static void sem_ping(void *context, uint64_t first, uint64_t count)
{
	struct transport *t = context;
	(void)first;
	while (count--) {
		memcpy(t->out->payload, t->own, t->run->size);
		step(0, +1);
		step(1, -1);
		memcpy(t->own, t->in->payload, t->run->size);
	}
}

static void sem_pong(struct transport *t)
{
	for (uint64_t count = total_rounds(t->run); count--; rounds_done++) {
		step(0, -1);
		think(t->run);
		memcpy(t->own, t->in->payload, t->run->size);
		memcpy(t->out->payload, t->own, t->run->size);
		step(1, +1);
	}
}

static void send(struct transport *t, long type)
{
	t->message->type = type;
	while (msgsnd(object, t->message, t->run->size, 0) != 0)
		if (errno != EINTR || deadline_passed)
			give_up_call("msgsnd");
}

static void receive(struct transport *t, long type)
{
	ssize_t got;
	while ((got = msgrcv(object, t->message, t->run->size, type, 0)) == -1)
		if (errno != EINTR || deadline_passed)
			give_up_call("msgrcv");
	if ((size_t)got != t->run->size)
		give_up("sent %zu bytes, received %zd", t->run->size, got);
}

static void msg_ping(void *context, uint64_t first, uint64_t count)
{
	struct transport *t = context;
	(void)first;
	while (count--) {
		send(t, 1);
		receive(t, 2);
	}
}

static void msg_pong(struct transport *t)
{
	for (uint64_t count = total_rounds(t->run); count--; rounds_done++) {
		receive(t, 1);
		think(t->run);
		send(t, 2);
	}
}

/* Messages one way: the second role is in step again at the end of each batch, and says so in
 * shared memory. */
enum { ON = 1, IN_STEP };

static void stream_ping(void *context, uint64_t first, uint64_t count)
{
	struct transport *t = context;
	for (uint64_t i = first + 1; i <= first + count; i++) {
		if (t->run->size >= sizeof i)
			memcpy(t->message->payload, &i, sizeof i);
		send(t, i < first + count ? ON : IN_STEP);
	}
	await_number(t->flag, first + count);
}

static void stream_pong(struct transport *t)
{
	for (uint64_t i = 1, last = total_rounds(t->run); i <= last; i++, rounds_done++) {
		receive(t, 0);
		if (t->run->size >= sizeof i && memcmp(t->message->payload, &i, sizeof i) != 0)
			give_up("message %llu did not come in its turn", (unsigned long long)i);
		if (t->message->type == IN_STEP)
			atomic_store_explicit(t->flag, i, memory_order_release);
	}
}

static void make_meeting(struct meeting *m)
{
	pthread_mutexattr_t mutex;
	pthread_condattr_t condition;
	pthread_mutexattr_init(&mutex);
	pthread_condattr_init(&condition);
	pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
	pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
	if (sem_init(&m->to_pong, 1, 0) != 0 || sem_init(&m->to_ping, 1, 0) != 0)
		give_up_call("sem_init");
	if (pthread_mutex_init(&m->mutex, &mutex) != 0
	        || pthread_cond_init(&m->changed, &condition) != 0)
		give_up("a mutex or a condition variable cannot be made");
	m->turn = 0;
}

static void take_one(sem_t *semaphore)
{
	while (sem_wait(semaphore) != 0)
		if (errno != EINTR || deadline_passed)
			give_up_call("sem_wait");
}

static void posix_sem_ping(void *context, uint64_t first, uint64_t count)
{
	struct transport *t = context;
	(void)first;
	while (count--) {
		sem_post(&t->meeting->to_pong);
		take_one(&t->meeting->to_ping);
	}
}

static void posix_sem_pong(struct transport *t)
{
	for (uint64_t count = total_rounds(t->run); count--; rounds_done++) {
		take_one(&t->meeting->to_pong);
		think(t->run);
		sem_post(&t->meeting->to_ping);
	}
}

/* A wait for one's turn has no end if the other side has died: the deadline's handler ends a wait
 * of this program's, not one of the C library's. */
static void take_turn(struct meeting *m, int mine)
{
	while (m->turn != mine && pthread_cond_wait(&m->changed, &m->mutex) == 0)
		if (deadline_passed)
			give_up("the other side did not answer in time");
}

static void cond_ping(void *context, uint64_t first, uint64_t count)
{
	struct meeting *m = ((struct transport *)context)->meeting;
	(void)first;
	pthread_mutex_lock(&m->mutex);
	while (count--) {
		m->turn = 1;
		pthread_cond_signal(&m->changed);
		take_turn(m, 0);
	}
	pthread_mutex_unlock(&m->mutex);
}

static void cond_pong(struct transport *t)
{
	struct meeting *m = t->meeting;
	pthread_mutex_lock(&m->mutex);
	for (uint64_t count = total_rounds(t->run); count--; rounds_done++) {
		take_turn(m, 1);
		think(t->run);
		m->turn = 0;
		pthread_cond_signal(&m->changed);
	}
	pthread_mutex_unlock(&m->mutex);
}

/* Two POSIX queues, one each way. The first role makes them, and takes their names away when the
 * second has opened them. */
struct queues {
	mqd_t out, in;
	char names[2][64];
};
static struct queues queues;

static void unlink_queues(void)
{
	for (int way = 0; way < 2; way++)
		if (queues.names[way][0] != 0)
			mq_unlink(queues.names[way]);
}

static void open_queues(const struct run *run, int project)
{
	int is_first = run->role == FIRST;
	struct mq_attr size = { .mq_maxmsg = 10, .mq_msgsize = (long)run->size + 1 };
	mqd_t made[2];
	for (int way = 0; way < 2; way++) {
		char *name = queues.names[way];
		snprintf(name, sizeof queues.names[way], "/pingpong-%d-%d", project, way);
		if (is_first)
			mq_unlink(name);
		made[way] = mq_open(name, O_RDWR | (is_first ? O_CREAT | O_EXCL : 0), 0600, &size);
		if (made[way] == (mqd_t)-1)
			give_up_call("mq_open");
	}
	queues.out = made[!is_first];
	queues.in = made[is_first];
}

static void mq_put(struct transport *t)
{
	while (mq_send(queues.out, (char *)t->own, t->run->size, 0) != 0)
		if (errno != EINTR || deadline_passed)
			give_up_call("mq_send");
}

static void mq_take(struct transport *t)
{
	ssize_t got;
	while ((got = mq_receive(queues.in, (char *)t->own, t->run->size + 1, NULL)) == -1)
		if (errno != EINTR || deadline_passed)
			give_up_call("mq_receive");
	if ((size_t)got != t->run->size)
		give_up("sent %zu bytes, received %zd", t->run->size, got);
}

static void mq_ping(void *context, uint64_t first, uint64_t count)
{
	(void)first;
	while (count--) {
		mq_put(context);
		mq_take(context);
	}
}

static void mq_pong(struct transport *t)
{
	for (uint64_t count = total_rounds(t->run); count--; rounds_done++) {
		mq_take(t);
		think(t->run);
		mq_put(t);
	}
}

enum { SHM, RAW, SYNC, SEM, MSG, STREAM, POSIX_SEM, COND, MQ };
static const struct {
	rounds_fn *ping;
	void (*pong)(struct transport *);
	int project; /* of ftok: one number for each transport and pair */
	size_t size; /* where no --size is given */
} ways[] = {
	[SHM] = { shm_ping, shm_pong, 1, 8 },
	[RAW] = { raw_ping, raw_pong, 49, 0 },
	[SYNC] = { sync_ping, sync_pong, 97, 0 },
	[SEM] = { sem_ping, sem_pong, 145, 0 },
	[MSG] = { msg_ping, msg_pong, 193, 8 },
	[STREAM] = { stream_ping, stream_pong, 241, 8 },
	[POSIX_SEM] = { posix_sem_ping, posix_sem_pong, 25, 0 },
	[COND] = { cond_ping, cond_pong, 73, 0 },
	[MQ] = { mq_ping, mq_pong, 121, 8 },
};
enum { MOST_PAIRS = 48, MOST_STREAMS = 15, MOST_MEETINGS = 24, NO_SIZE_GIVEN = -1 };

static int most_pairs(int way)
{
	switch (way) {
	case STREAM: return MOST_STREAMS;
	case SHM:
	case RAW:
	case SYNC:
	case MQ:
	case POSIX_SEM:
	case COND: return MOST_MEETINGS;
	default: return MOST_PAIRS;
	}
}

int main(int argc, char **argv)
{
	static const char *const transports[] = { "shm", "raw", "sync", "sem", "msg", "stream",
		"posix-sem", "cond", "mq", NULL };
	static const struct program program = {
		"Round trips over System V IPC; ping prints one line of JSON. raw carries no payload; sync and sem carry\n"
		"theirs in a segment. Without --size shm, msg, mq and stream carry 8 bytes, the others none.\n"
		"stream counts messages that go one way. "
		"posix-sem and cond carry no payload: their objects lie in the segment.",
		"ping", "pong", transports, false
	};
	struct run run = { .transport = "shm",
		.size = (size_t)NO_SIZE_GIVEN,
		.rounds = 100000,
		.warmup = 1000,
		.batches = 50,
		.pairs = 1,
		.timeout = 30,
		.cpu = -1,
		.peer_cpu = -1,
		.path = "/etc/passwd" };
	read_options(&run, &program, argc, argv);
	int way = SHM;
	while (strcmp(transports[way], run.transport) != 0)
		way++;
	if (run.size == (size_t)NO_SIZE_GIVEN)
		run.size = ways[way].size;
	if (way == RAW || way == POSIX_SEM || way == COND)
		run.size = 0;
	int pair;
	take_role(&run, &pair);
	on_failure = remove_object;

	object_is_set = way == SEM;
	if (run.role == FIRST && way >= SEM && way < POSIX_SEM) {
		object = object_is_set ? semget(IPC_PRIVATE, 2, 0600) : msgget(IPC_PRIVATE, 0600);
		if (object == -1)
			give_up_call(object_is_set ? "semget" : "msgget");
	}
	size_t lane_bytes = way == MSG ? 0 : (sizeof(struct lane) + run.size + 127) / 128 * 128;
	struct rendezvous *r = meet(&run, ways[way].project + pair % most_pairs(way),
		2 * (sizeof(struct bakery) + lane_bytes) + sizeof(struct meeting), object);

	struct transport t = { .run = &run, .place = run.role == SECOND };
	t.own = calloc(1, run.size + 1);
	t.message = calloc(1, sizeof *t.message + run.size + 1);
	if (t.own == NULL || t.message == NULL)
		give_up("no memory for a payload of %zu bytes", run.size);
	memset(t.own, 0x5a, run.size);
	struct bakery *bakery = (void *)r->body;
	unsigned char *lanes = (void *)(bakery + 2);
	struct lane *lane[2] = { (void *)lanes, (void *)(lanes + lane_bytes) };
	t.out = lane[run.role == SECOND];
	t.in = lane[run.role == FIRST];
	t.posted = &bakery[run.role == SECOND];
	t.awaited = &bakery[run.role == FIRST];
	t.flag = &lane[0]->sequence;
	t.meeting = (void *)(lanes + 2 * lane_bytes);
	if (way >= POSIX_SEM) {
		if (run.role == SECOND)
			await_number(t.flag, 1);
		else if (way != MQ)
			make_meeting(t.meeting);
		if (way == MQ) {
			open_queues(&run, ways[MQ].project + pair % most_pairs(MQ));
			on_failure = unlink_queues;
		}
		atomic_store_explicit(t.flag, 1, memory_order_release);
	}

	if (run.role == FIRST) {
		measure(&run, ways[way].ping, &t, NULL);
		remove_object();
		unlink_queues();
	} else {
		object = atomic_load(&r->object);
		on_failure = NULL; /* not this role's to remove */
		ways[way].pong(&t);
	}
	for (size_t i = 0; i < run.size; i++)
		if (t.own[i] != 0x5a)
			give_up("byte %zu of %zu came back as 0x%02x", i, run.size, t.own[i]);
	return 0;
}

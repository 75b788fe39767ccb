/* Round trips between two processes over System V IPC: a segment polled in user space, semaphores, or a queue. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <time.h>

#include "rendezvous.h"
#include "run.h"

/* One direction: the sequence number and, for small payloads, the payload share a cache line, so that a message of 56
 * bytes or less moves as one line. The number is stored last and read first. */
struct lane {
	_Alignas(64) _Atomic uint64_t sequence;
	unsigned char payload[];
};

struct transport {
	const struct run *run;
	struct lane *out, *in;
	unsigned char *own; /* the program's buffer, outside the segment: each side copies in and out */
	struct { long type; unsigned char payload[]; } *message;
};

static int object = -1; /* semaphore set or queue: the first role's to remove */
static int object_is_set;

static void remove_object(void)
{
	if (object != -1 && (object_is_set ? semctl(object, 0, IPC_RMID) : msgctl(object, IPC_RMID, NULL)) != 0)
		fprintf(stderr, "removal of the transport's object failed: %s\n", strerror(errno));
	object = -1;
}

static void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static void await(const struct run *run, struct lane *lane, uint64_t sequence)
{
	for (unsigned long spins = 1; atomic_load_explicit(&lane->sequence, memory_order_acquire) != sequence; spins++) {
		relax();
		if (deadline_passed)
			give_up("no answer in shared memory before the deadline");
		/* Rarely, in case both roles share one CPU; never on the path of a prompt answer. */
		if (spins % (1u << 13) == 0)
			sched_yield();
		/* A kernel cannot give way to another one but by idling. */
		if (run->looks != 0 && spins >= (unsigned long)run->looks)
			nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
	}
}

static void shm_ping(void *context, uint64_t first, uint64_t count)
{
	struct transport *t = context;
	for (uint64_t i = first + 1; i <= first + count; i++) {
		memcpy(t->out->payload, t->own, t->run->size);
		atomic_store_explicit(&t->out->sequence, i, memory_order_release);
		await(t->run, t->in, i);
		memcpy(t->own, t->in->payload, t->run->size);
	}
}

static void shm_pong(struct transport *t)
{
	for (uint64_t i = 1, last = total_rounds(t->run); i <= last; i++) {
		await(t->run, t->in, i);
		memcpy(t->own, t->in->payload, t->run->size);
		memcpy(t->out->payload, t->own, t->run->size);
		atomic_store_explicit(&t->out->sequence, i, memory_order_release);
	}
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
	(void)context, (void)first;
	while (count--) {
		step(0, +1);
		step(1, -1);
	}
}

static void sem_pong(struct transport *t)
{
	for (uint64_t count = total_rounds(t->run); count--;) {
		step(0, -1);
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
	for (uint64_t count = total_rounds(t->run); count--;) {
		receive(t, 1);
		send(t, 2);
	}
}

int main(int argc, char **argv)
{
	static const char *const transports[] = { "shm", "sem", "msg", NULL };
	static const struct program program = {
		"Round trips over System V IPC; ping prints one line of JSON. sem carries no payload.", "ping", "pong",
		transports, false };
	struct run run = { .transport = "shm", .size = 8, .rounds = 100000, .warmup = 1000, .batches = 50, .pairs = 1,
			   .timeout = 30, .cpu = -1, .peer_cpu = -1, .path = "/etc/passwd" };
	read_options(&run, &program, argc, argv);
	int pair;
	take_role(&run, &pair);
	on_failure = remove_object;

	int shm = strcmp(run.transport, "shm") == 0;
	object_is_set = strcmp(run.transport, "sem") == 0;
	if (object_is_set)
		run.size = 0;
	if (run.role == FIRST && !shm) {
		object = object_is_set ? semget(IPC_PRIVATE, 2, 0600) : msgget(IPC_PRIVATE, 0600);
		if (object == -1)
			give_up_call(object_is_set ? "semget" : "msgget");
	}
	size_t lane_bytes = shm ? (sizeof(struct lane) + run.size + 127) / 128 * 128 : 0;
	/* One project number for each transport and pair. */
	struct rendezvous *r = meet(&run, 1 + (shm ? 0 : object_is_set ? 80 : 160) + pair % 80, 2 * lane_bytes, object);

	struct transport t = { .run = &run };
	t.own = calloc(1, run.size + 1);
	t.message = calloc(1, sizeof *t.message + run.size + 1);
	if (t.own == NULL || t.message == NULL)
		give_up("no memory for a payload of %zu bytes", run.size);
	memset(t.own, 0x5a, run.size);
	struct lane *lane[2] = { (void *)r->body, (void *)(r->body + lane_bytes) };
	t.out = lane[run.role == SECOND];
	t.in = lane[run.role == FIRST];

	if (run.role == FIRST) {
		measure(&run, shm ? shm_ping : object_is_set ? sem_ping : msg_ping, &t, NULL);
		remove_object();
		return 0;
	}
	object = atomic_load(&r->object);
	on_failure = NULL; /* not this role's to remove */
	(shm ? shm_pong : object_is_set ? sem_pong : msg_pong)(&t);
	return 0;
}

/* Processes that want the same semaphore, or the same queue, all the time. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <time.h>
#include <unistd.h>

#include "calls.h"

enum { MOST_PROCESSES = 1024, WORDS = 8 };

struct tally {
	_Alignas(64) uint64_t done, sum;
};

/* Shared by fork, so that it is the same memory whether the calls are the kernel's or a pool's. */
struct arena {
	_Atomic bool stop;
	/* Written without atomics on purpose: only the semaphore orders the processes. */
	_Alignas(64) volatile uint64_t guarded[WORDS];
	struct tally tallies[MOST_PROCESSES];
};

static struct arena *arena;
static int set = -1, queue = -1;

static void remove_objects(void)
{
	if (set != -1)
		semctl(set, 0, IPC_RMID);
	if (queue != -1)
		msgctl(queue, IPC_RMID, NULL);
	set = queue = -1;
}

static bool stopped(void)
{
	return atomic_load_explicit(&arena->stop, memory_order_relaxed);
}

static void step(short by)
{
	struct sembuf operation = { 0, by, 0 };
	while (semop(set, &operation, 1) != 0)
		if (errno != EINTR || deadline_passed)
			give_up_call("semop");
}

static void guard(struct tally *tally)
{
	while (!stopped()) {
		step(-1);
		for (int i = 0; i < WORDS; i++) {
			if (arena->guarded[i] != arena->guarded[0])
				give_up("two processes were in the critical section at once");
		}
		for (int i = WORDS - 1; i >= 0; i--)
			arena->guarded[i]++;
		step(+1);
		tally->done++;
	}
}

struct letter {
	long type;
	uint64_t value;
	unsigned char filling[56];
};

static const uint64_t the_end = UINT64_MAX;

static void send(uint64_t value)
{
	struct letter letter = { .type = 1, .value = value };
	while (msgsnd(queue, &letter, sizeof letter - sizeof letter.type, 0) != 0)
		if (errno != EINTR || deadline_passed)
			give_up_call("msgsnd");
}

static void send_many(struct tally *tally)
{
	while (!stopped()) {
		uint64_t value = tally->done * 2654435761u & 0xffffffff;
		send(value);
		tally->sum += value;
		tally->done++;
	}
}

static void receive_many(struct tally *tally)
{
	for (;;) {
		struct letter letter;
		ssize_t got = msgrcv(queue, &letter, sizeof letter - sizeof letter.type, 0, 0);
		if (got == -1 && errno == EINTR && !deadline_passed)
			continue;
		if (got == -1)
			give_up_call("msgrcv");
		if (got != (ssize_t)(sizeof letter - sizeof letter.type) || letter.type != 1)
			give_up("a message of type %ld and %zd bytes", letter.type, got);
		if (letter.value == the_end)
			return;
		tally->sum += letter.value;
		/* What is only drained after the end counts for nobody. */
		tally->done += !stopped();
	}
}

static void make_arena(const struct request *request)
{
	if (request->processes > MOST_PROCESSES)
		give_up("--processes is at most %d", MOST_PROCESSES);
	arena = mmap(NULL, sizeof *arena, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (arena == MAP_FAILED)
		give_up_call("mmap");
	on_failure = remove_objects;
}

/* Half of the processes do one thing and half the other. */
static void start(struct crowd *crowd, long processes, void (*one)(struct tally *), void (*other)(struct tally *))
{
	crowd_prepare(crowd);
	for (long i = 0; i < processes; i++) {
		if (!crowd_enlarge(crowd))
			continue;
		arrive(crowd);
		(i < processes / 2 ? one : other)(&arena->tallies[i]);
		_exit(0);
	}
	crowd_await(crowd);
}

/* Sleeps while the others work; the time that it took. */
static uint64_t let_work(long milliseconds)
{
	uint64_t begin = now_ns();
	struct timespec left = { milliseconds / 1000, milliseconds % 1000 * 1000000 };
	while (nanosleep(&left, &left) != 0)
		if (deadline_passed)
			give_up_call("nanosleep");
	atomic_store(&arena->stop, true);
	return now_ns() - begin;
}

static uint64_t sum_done(const struct tally *tallies, long n)
{
	uint64_t sum = 0;
	for (long i = 0; i < n; i++)
		sum += tallies[i].done;
	return sum;
}

/* What the one that did least has done, of what each would have done if all had done the same. */
static double smallest_share(const struct tally *tallies, long n)
{
	uint64_t least = UINT64_MAX, sum = sum_done(tallies, n);
	for (long i = 0; i < n; i++)
		least = tallies[i].done < least ? tallies[i].done : least;
	return sum == 0 ? 0 : (double)least * (double)n / (double)sum;
}

static void tell(const struct request *request, uint64_t wall, uint64_t done, double share)
{
	if (done == 0)
		give_up("nobody got anything done in %ld ms", request->milliseconds);
	double each = (double)wall / (double)done;
	struct reading reading = { .rounds = done, .batches = 1, .median = each, .mean = each, .min = each, .p99 = each };
	char more[128];
	snprintf(more, sizeof more, ",\"cpu_ns\":%.1f,\"smallest_share\":%.4f", (double)cpu_ns_of_children() / (double)done, share);
	print_reading(&request->run, &reading, more);
}

void contend_for_a_semaphore(const struct request *request)
{
	make_arena(request);
	set = semget(IPC_PRIVATE, 1, 0600);
	if (set == -1)
		give_up_creating("semget");
	step(+1);
	struct crowd crowd;
	long n = request->processes;
	start(&crowd, n, guard, guard);
	crowd_release(&crowd);
	uint64_t wall = let_work(request->milliseconds);
	crowd_end(&crowd);
	uint64_t done = sum_done(arena->tallies, n);
	if (arena->guarded[0] != done || semctl(set, 0, GETVAL) != 1)
		give_up("%llu times through the critical section, %llu counted there; the semaphore is %d, not 1",
			(unsigned long long)done, (unsigned long long)arena->guarded[0], semctl(set, 0, GETVAL));
	tell(request, wall, done, smallest_share(arena->tallies, n));
	remove_objects();
}

void contend_for_a_queue(const struct request *request)
{
	make_arena(request);
	queue = msgget(IPC_PRIVATE, 0600);
	if (queue == -1)
		give_up_creating("msgget");
	if (request->processes % 2 != 0)
		give_up("--processes has to be even: half of them send");
	struct crowd crowd;
	long n = request->processes / 2;
	struct tally *sent = arena->tallies, *received = arena->tallies + n;
	start(&crowd, 2 * n, send_many, receive_many);
	crowd_release(&crowd);
	uint64_t wall = let_work(request->milliseconds);
	crowd_end_some(&crowd, n); /* the senders: no receiver ends before it is told to */
	for (long i = 0; i < n; i++)
		send(the_end);
	crowd_end(&crowd);
	uint64_t difference = 0;
	for (long i = 0; i < n; i++)
		difference += sent[i].sum - received[i].sum;
	struct msqid_ds state;
	if (msgctl(queue, IPC_STAT, &state) != 0)
		give_up_call("IPC_STAT");
	if (difference != 0 || state.msg_qnum != 0)
		give_up("what was sent and what was received do not add up; %lu messages are left", (unsigned long)state.msg_qnum);
	double senders_share = smallest_share(sent, n), receivers_share = smallest_share(received, n);
	tell(request, wall, sum_done(received, n), senders_share < receivers_share ? senders_share : receivers_share);
	remove_objects();
}

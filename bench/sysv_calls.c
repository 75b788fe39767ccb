/* System V IPC calls, POSIX queues and locks, timed case by case; each prints one line of JSON.
 * Unchanged, it measures the kernel's IPC when it is run as it is, and a pool's under `vshmem run`.
 * Every result is checked: a wrong one ends the run. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls/calls.h"

static const struct {
	const char *name;
	case_fn *run;
	const char *does;
} cases[] = {
	{ "semop", semaphore_pair, "semop +1, semop -1" },
	{ "semop-undo", semaphore_pair_with_undo, "the same with SEM_UNDO" },
	{ "semop-program", semaphore_program,
		"semop +1, semop -1, built before each call, on the first of two semaphores" },
	{ "semop-program-undo", semaphore_program_with_undo, "the same with SEM_UNDO" },
	{ "semop-array", semaphore_arrays, "the same on three semaphores at once" },
	{ "getval", semaphore_value, "semctl GETVAL" },
	{ "message", message, "msgsnd, msgrcv of --size bytes" },
	{ "segment", segment_cycle, "shmget, shmat, [--touch,] shmdt, IPC_RMID of --size bytes" },
	{ "segment-attach", segment_attach, "shmat, shmdt of --size bytes" },
	{ "segment-sustained", segment_sustained, "segment, for --milliseconds" },
	{ "lookup-semop", lookup_semop, "semop +1, semop -1 on one of --objects sets" },
	{ "lookup-semget", lookup_semget, "semget of one of --objects keys" },
	{ "lookup-msgget", lookup_msgget, "msgget of one of --objects keys" },
	{ "lookup-shmget", lookup_shmget, "shmget of one of --objects keys" },
	{ "posix-message", posix_message, "mq_send, mq_receive of --size bytes" },
	{ "posix-message-urgent", posix_message_with_priority, "the same with priority 5" },
	{ "posix-sem", posix_semaphore, "sem_post, sem_wait of a semaphore in a segment" },
	{ "mutex", shared_mutex, "pthread_mutex_lock, unlock of a process-shared one in a segment" },
	{ "mutex-robust", robust_mutex, "the same, robust" },
	{ "mutex-private", private_mutex, "the same of the C library's, for threads of this process" },
	{ "rwlock", shared_rwlock, "pthread_rwlock_rdlock, unlock of a process-shared one in a segment" },
	{ "contend-semaphore", contend_for_a_semaphore,
		"--processes share a critical section, for --milliseconds" },
	{ "contend-queue", contend_for_a_queue,
		"half of --processes send to the other half, for --milliseconds" },
	{ "requests", requests,
		"one of --processes answers the requests of the others, distinguished by type over one queue, for --milliseconds" },
};

static _Noreturn void usage(FILE *out, const char *name)
{
	fprintf(out, "usage: %s [options] CASE\n", name);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		fprintf(out, "  %-21s %s\n", cases[i].name, cases[i].does);
	fprintf(out,
		"options:\n"
		"  --rounds N        rounds that count\n"
		"  --warmup N        rounds before them that do not\n"
		"  --batches N       timed batches that the rounds are split into (default 50)\n"
		"  --size N          bytes of a message or segment\n"
		"  --touch           write to each page of a segment\n"
		"  --objects N       objects of the kind that there are\n"
		"  --random          one of them at random each round, instead of always the same\n"
		"  --depth N         messages of case message that are sent before they are received (default 1)\n"
		"  --clients N       processes that are attached, this one included; the others sleep\n"
		"  --processes N     processes that contend (even, for a queue)\n"
		"  --milliseconds N  length of a run that is measured by time\n"
		"  --timeout S       give up after S seconds (default 60)\n"
		"  --cpu N           pin to CPU N\n"
		"  --peer-cpu N      pin the process that answers requests to CPU N\n");
	exit(out == stdout ? 0 : 2);
}

static void read_request(struct request *request, int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "rounds", required_argument, NULL, 'r' },
		{ "warmup", required_argument, NULL, 'w' },
		{ "batches", required_argument, NULL, 'b' },
		{ "size", required_argument, NULL, 's' },
		{ "touch", no_argument, NULL, 't' },
		{ "objects", required_argument, NULL, 'o' },
		{ "random", no_argument, NULL, 'R' },
		{ "depth", required_argument, NULL, 'd' },
		{ "clients", required_argument, NULL, 'C' },
		{ "processes", required_argument, NULL, 'P' },
		{ "milliseconds", required_argument, NULL, 'm' },
		{ "timeout", required_argument, NULL, 'T' },
		{ "cpu", required_argument, NULL, 'c' },
		{ "peer-cpu", required_argument, NULL, 'p' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int option, index = 0;
	while ((option = getopt_long(argc, argv, "h", long_options, &index)) != -1) {
		const char *name = long_options[index].name;
		switch (option) {
		case 'r': request->run.rounds = number(name, optarg, 1); break;
		case 'w': request->run.warmup = number(name, optarg, 0); break;
		case 'b': request->run.batches = number(name, optarg, 1); break;
		case 's': request->run.size = (size_t)number(name, optarg, 1); break;
		case 't': request->touch = true; break;
		case 'o': request->objects = number(name, optarg, 1); break;
		case 'R': request->random = true; break;
		case 'd': request->depth = number(name, optarg, 1); break;
		case 'C': request->clients = number(name, optarg, 1); break;
		case 'P': request->processes = number(name, optarg, 2); break;
		case 'm': request->milliseconds = number(name, optarg, 1); break;
		case 'T': request->run.timeout = (int)number(name, optarg, 1); break;
		case 'c': request->run.cpu = (int)number(name, optarg, 0); break;
		case 'p': request->run.peer_cpu = (int)number(name, optarg, 0); break;
		case 'h': usage(stdout, argv[0]);
		default: usage(stderr, argv[0]);
		}
	}
	if (optind != argc - 1)
		usage(stderr, argv[0]);
	request->run.transport = argv[optind];
	split_into_batches(&request->run);
}

int main(int argc, char **argv)
{
	struct request request = {
		.run = { .size = 8,
			.rounds = 100000,
			.warmup = 1000,
			.batches = 50,
			.timeout = 60,
			.cpu = -1,
			.peer_cpu = -1 },
		.objects = 1,
		.depth = 1,
		.clients = 1,
		.processes = 2,
		.milliseconds = 500,
	};
	read_request(&request, argc, argv);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		if (strcmp(cases[i].name, request.run.transport) != 0)
			continue;
		pin(request.run.cpu);
		start_deadline(request.run.timeout);
		cases[i].run(&request);
		return 0;
	}
	fprintf(stderr, "there is no case '%s'\n", request.run.transport);
	usage(stderr, argv[0]);
}

/* A process that ends, or fails to become another program, while its threads still store into what
 * it has attached. */
#include "case.h"

#include <pthread.h>
#include <sys/stat.h>

enum { PAGE = 4096, PAGES = 16, WORD = 0x5702e };

static void *store_for_ever(void *context)
{
	volatile int *at = context;
	for (;;)
		for (int page = 0; page < PAGES; page++)
			at[page * PAGE / (int)sizeof(int)] = WORD;
	return NULL;
}

/* A thread that stores into the segment until the process has ended. */
static void store_beside(int segment)
{
	pthread_t t;
	char *at = attach(segment);
	if (pthread_create(&t, NULL, store_for_ever, at) != 0)
		broken("pthread_create");
}

struct ending {
	int segment, set;
	int text[2];
};

/* Ends with text that nobody reads yet: exit(3) comes to stand in the last thing that it does,
 * after all destructors. */
static void exit_slowly(void *context)
{
	struct ending *e = context;
	store_beside(e->segment);
	step(e->set, 0, 1, SEM_UNDO);
	fcntl(e->text[1], F_SETFL, O_NONBLOCK);
	char room[4096] = "";
	while (write(e->text[1], room, sizeof room) > 0 || errno == EINTR)
		;
	fcntl(e->text[1], F_SETFL, 0);
	dup2(e->text[1], 1);
	printf("the last words");
	exit(0);
}

/* Segments made now: none shows what another process stores. */
static bool new_ones_are_clean(void)
{
	bool clean = true;
	for (int i = 0; i < turns(20); i++) {
		int a = segment_of(PAGES * PAGE);
		volatile int *at = (void *)attach(a);
		for (int look = 0; look < 500; look++)
			for (int page = 0; page < PAGES; page++)
				clean &= at[page * PAGE / (int)sizeof(int)] == 0;
		shmdt((void *)at);
		shmctl(a, IPC_RMID, NULL);
	}
	return clean;
}

CASE(end_exit_while_threads_store)
{
	struct ending e = { .segment = segment_of(PAGES * PAGE), .set = set_of(1) };
	if (pipe(e.text) != 0)
		broken("pipe");
	pid_t child = start(exit_slowly, &e);
	await_asleep(child);
	shmctl(e.segment, IPC_RMID, NULL);
	say("while it ends: attaches %ld", attaches(e.segment));
	say("new segments are clean: %s", yes(new_ones_are_clean()));
	say("its adjustment: value %d", value(e.set, 0));
	close(e.text[1]);
	char room[4096];
	while (read(e.text[0], room, sizeof room) > 0)
		;
	say("it ended: %s", ended(finish(child)));
	struct shmid_ds ds;
	say("its segment: %s, its adjustment: value %d", got(shmctl(e.segment, IPC_STAT, &ds)),
		value(e.set, 0));
}

/* Its parent is a program that has made no call of System V's. */
static void end_under_a_stranger(void *context)
{
	struct ending *e = context;
	pid_t child = fork();
	if (child == 0) {
		attach(e->segment);
		step(e->set, 0, 1, SEM_UNDO);
		store_beside(e->segment);
		exit(0);
	}
	waitpid(child, NULL, 0);
}

CASE(end_exit_seen_by_others_at_once)
{
	/* A process that learns of the end by a file that it had open asks after it. */
	struct ending e = { .segment = segment_of(PAGES * PAGE), .set = set_of(1) };
	if (pipe(e.text) != 0)
		broken("pipe");
	for (int i = 0; i < turns(20); i++) {
		pid_t child = start(end_under_a_stranger, &e);
		finish(child);
		long count = attaches(e.segment);
		int now = value(e.set, 0);
		if (count != 0 || now != 0) {
			say("attaches %ld, value %d", count, now);
			return;
		}
	}
	say("attaches 0, value 0");
}

CASE(end_exec_fails_while_threads_store)
{
	int a = segment_of(PAGES * PAGE);
	store_beside(a);
	shmctl(a, IPC_RMID, NULL);
	char name[] = "/tmp/probe-XXXXXX";
	int file = mkstemp(name);
	if (file == -1 || write(file, "no program\n", 11) != 11 || fchmod(file, 0755) != 0)
		broken("a file");
	close(file);
	say("no program: %s", got(execv(name, (char *[]) { name, NULL })));
	unlink(name);
	say("attaches %ld", attaches(a));
	say("new segments are clean: %s", yes(new_ones_are_clean()));
}

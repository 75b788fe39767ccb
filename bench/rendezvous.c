#include "rendezvous.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <time.h>
#include <unistd.h>

static void pause_a_little(int segment)
{
	nanosleep(&(struct timespec) { .tv_nsec = 500000 }, NULL);
	if (!deadline_passed)
		return;
	/* The other role did not come: leave nothing behind. An error means that the other role has
	 * just removed it. */
	shmctl(segment, IPC_RMID, NULL);
	give_up("the other role did not turn up in time (is it on the same pool, with the same --path?)");
}

static struct rendezvous *attach(key_t key, size_t bytes, int *segment)
{
	for (;;) {
		*segment = shmget(key, bytes, IPC_CREAT | 0600);
		if (*segment == -1 && errno == EINVAL)
			give_up("a segment of another size is there: the roles' options differ, or a killed run left it "
				"(ipcrm -M 0x%x)",
				(unsigned)key);
		if (*segment == -1)
			give_up_call("shmget of the meeting place");
		void *at = shmat(*segment, NULL, 0);
		if (at != (void *)-1)
			return at;
		/* The other role of an ending run removed it between the two calls: make a new one.
		 */
		if (errno != EINVAL && errno != EIDRM)
			give_up_call("shmat of the meeting place");
	}
}

struct rendezvous *meet(const struct run *run, int project, size_t body_bytes, int object)
{
	key_t key = ftok(run->path, project);
	if (key == (key_t)-1)
		give_up("ftok of '%s' failed: %s", run->path, strerror(errno));
	int segment;
	struct rendezvous *r = attach(key, sizeof *r + body_bytes, &segment);
	uint64_t terms = run->size * 1000003u + total_rounds(run);

	if (run->role == FIRST) {
		memset(r->body, 0, body_bytes);
		uint64_t offer = (now_ns() << 16 ^ (uint64_t)getpid()) | 1;
		atomic_store(&r->terms, terms);
		atomic_store(&r->object, object);
		atomic_store(&r->offer, offer);
		while (atomic_load(&r->answer) != offer)
			pause_a_little(segment);
		if (shmctl(segment, IPC_RMID, NULL) != 0)
			give_up_call("removal of the meeting place");
		atomic_store(&r->begin, offer);
		return r;
	}
	uint64_t offer;
	do {
		pause_a_little(segment);
		offer = atomic_load(&r->offer);
		atomic_store(&r->answer, offer);
	} while (offer == 0 || atomic_load(&r->begin) != offer);
	if (atomic_load(&r->terms) != terms)
		give_up("the two roles were started with different sizes or rounds");
	return r;
}

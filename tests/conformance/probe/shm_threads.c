/* Threads that attach and detach beside threads that map and unmap memory of their own: nobody
 * takes another's. */
#include "case.h"

#include <pthread.h>
#include <stdatomic.h>

/* The call first, then the count: the order in which arguments are evaluated is the compiler's. */
#define counted(what_, result_, segment_)                                      \
	do {                                                                   \
		const char *said_ = got(result_);                              \
		say("%s: %s, attaches %ld", what_, said_, attaches(segment_)); \
	} while (0)

enum { PAGE = 4096, ROUNDS = 1500 };

struct crew {
	size_t bytes;
	pthread_barrier_t begin;
	atomic_long refused, foreign, left;
};

/* Attaches a segment of its own, marks it, looks at it again and detaches it. */
static void *attacher(void *context)
{
	struct crew *c = context;
	int a = segment_of(c->bytes);
	pthread_barrier_wait(&c->begin);
	for (int i = 0; i < turns(ROUNDS); i++) {
		int *at = shmat(a, NULL, 0);
		if (at == (void *)-1) {
			c->refused++;
			continue;
		}
		*at = a;
		if (attaches(a) != 1)
			c->left++;
		if (*(volatile int *)at != a)
			c->foreign++;
		if (shmdt(at) != 0)
			c->refused++;
	}
	if (attaches(a) != 0)
		c->left++;
	return NULL;
}

static char *own(size_t bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		broken("mmap");
	memset(at, 0x55, PAGE);
	return at;
}

static void *unmapper(void *context)
{
	struct crew *c = context;
	pthread_barrier_wait(&c->begin);
	for (int i = 0; i < 2 * turns(ROUNDS); i++)
		if (munmap(own(c->bytes), c->bytes) != 0)
			c->refused++;
	return NULL;
}

static void *mover(void *context)
{
	struct crew *c = context;
	pthread_barrier_wait(&c->begin);
	for (int i = 0; i < turns(ROUNDS); i++) {
		char *at = mremap(own(c->bytes), c->bytes, 2 * c->bytes, MREMAP_MAYMOVE);
		if (at == MAP_FAILED || at[PAGE - 1] != 0x55)
			c->foreign++;
		else if (munmap(at, 2 * c->bytes) != 0)
			c->refused++;
	}
	return NULL;
}

static void *(*const PARTS[])(
	void *) = { attacher, unmapper, attacher, mover, attacher, unmapper, attacher, mover };
enum { CREW = sizeof(PARTS) / sizeof(*PARTS) };

static void side_by_side(size_t bytes)
{
	struct crew c = { .bytes = bytes };
	pthread_barrier_init(&c.begin, NULL, CREW);
	pthread_t threads[CREW];
	for (int i = 0; i < CREW; i++)
		if (pthread_create(&threads[i], NULL, PARTS[i], &c) != 0)
			broken("pthread_create");
	for (int i = 0; i < CREW; i++)
		pthread_join(threads[i], NULL);
	say("refused: %s", c.refused ? "some" : "none");
	say("another's bytes found: %s", c.foreign ? "some" : "none");
	say("counted wrongly: %s", c.left ? "some" : "none");
}

CASE(shm_threads_attach_beside_munmap_4k) { side_by_side(PAGE); }
CASE(shm_threads_attach_beside_munmap_16k) { side_by_side(4 * PAGE); }
CASE(shm_threads_attach_beside_munmap_64k) { side_by_side(16 * PAGE); }

/* ---- an attach whose rights one thread changes while another detaches it ---- */

struct kept_place {
	int segment;
	char *at;
	atomic_int over;
};

static void *protector(void *context)
{
	struct kept_place *k = context;
	while (!k->over) {
		mprotect(k->at, PAGE, PROT_READ);
		mprotect(k->at, PAGE, PROT_READ | PROT_WRITE);
	}
	return NULL;
}

CASE(shm_threads_protect_beside_detach)
{
	struct kept_place k = { .segment = segment_of(4 * PAGE) };
	k.at = shmat(k.segment, NULL, 0);
	pthread_t thread;
	if (pthread_create(&thread, NULL, protector, &k) != 0)
		broken("pthread_create");
	int kept = 0, lost = 0;
	/* Few: in an emulated guest whose pool is mapped by hypercalls each takes milliseconds. */
	for (int i = 0; i < turns(ROUNDS) / 10; i++) {
		kept += shmdt(k.at) != 0;
		lost += shmat(k.segment, k.at, 0) != k.at;
	}
	k.over = 1;
	pthread_join(thread, NULL);
	say("not detached: %d, not attached again: %d", kept, lost);
	counted("in the end", shmdt(k.at), k.segment);
}

/* ---- parts of one attach, changed by several threads at once ---- */

struct shared_attach {
	char *at;
	pthread_barrier_t begin;
	atomic_int next;
};

static void *changer(void *context)
{
	struct shared_attach *s = context;
	char *page = s->at + (size_t)(2 * atomic_fetch_add(&s->next, 1) + 1) * PAGE;
	pthread_barrier_wait(&s->begin);
	for (int i = 0; i < 500; i++) {
		mprotect(page, PAGE, PROT_READ);
		mprotect(page, PAGE, PROT_READ | PROT_WRITE);
	}
	return NULL;
}

CASE(shm_threads_change_parts_of_one)
{
	int a = segment_of(9 * PAGE);
	struct shared_attach s = { .at = attach(a) };
	pthread_barrier_init(&s.begin, NULL, 4);
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		if (pthread_create(&threads[i], NULL, changer, &s) != 0)
			broken("pthread_create");
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	say("attaches %ld", attaches(a));
	counted("shmdt", shmdt(s.at), a);
}

/* ---- fork beside threads that attach and detach ---- */

static atomic_bool over;

static void *attach_until_over(void *context)
{
	struct crew *c = context;
	int a = segment_of(c->bytes);
	pthread_barrier_wait(&c->begin);
	while (!over) {
		void *at = shmat(a, NULL, 0);
		if (at == (void *)-1 || shmdt(at) != 0)
			c->refused++;
	}
	if (attaches(a) != 0)
		c->left++;
	return NULL;
}

CASE(shm_threads_fork_beside_attach)
{
	struct crew c = { .bytes = PAGE };
	pthread_barrier_init(&c.begin, NULL, 4);
	pthread_t threads[3];
	over = false;
	for (int i = 0; i < 3; i++)
		if (pthread_create(&threads[i], NULL, attach_until_over, &c) != 0)
			broken("pthread_create");
	int mine = segment_of(PAGE);
	attach(mine);
	pthread_barrier_wait(&c.begin);
	long forks = 0, counted = 0;
	for (int i = 0; i < 60; i++) {
		pid_t child = fork();
		if (child == 0)
			_exit(attaches(mine) == 2 ? 0 : 1);
		int status = 0;
		if (child > 0 && waitpid(child, &status, 0) == child) {
			forks++;
			counted += WIFEXITED(status) && WEXITSTATUS(status) == 0;
		}
	}
	over = true;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	say("forks %ld, of which found both attaches %ld", forks, counted);
	say("refused: %s, counted wrongly: %s", c.refused ? "some" : "none",
		c.left ? "some" : "none");
	say("attaches %ld", attaches(mine));
}

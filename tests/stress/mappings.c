/* Threads that attach, detach, cut, move, lock and unmap what they have attached, and memory of
 * their own, at random, while signals come whose handler calls in itself, children are forked, and
 * the process ends in the middle. A model of the mappings says what each segment's shm_nattch and
 * each page must be; a difference ends the run with what was done last.
 *
 *	mappings [SECONDS [SEED]]
 *
 * It passes on the kernel, which is how the model is known to be right: nothing in it knows a pool.
 * */
#define _GNU_SOURCE
#include "mappings.h"

static struct actor actors[THREADS];
static __thread struct actor *self;
static __thread volatile sig_atomic_t in_handler;
static pthread_mutex_t one_child = PTHREAD_MUTEX_INITIALIZER;

/* ---- steps beside segments ---- */

static void on_own_memory(struct actor *a)
{
	size_t bytes = (size_t)(1 + chance(a, 2 * PAGES)) * PAGE;
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		differs(a, "mmap");
	memset(at, a->number + 1, bytes);
	if (chance(a, 2) == 0) {
		char *to = mremap(at, bytes, bytes + PAGE, MREMAP_MAYMOVE);
		if (to == MAP_FAILED)
			differs(a, "mremap of own memory");
		at = to;
		at[bytes] = 1;
		sched_yield();
		munmap(at + bytes, PAGE);
	}
	note(a, "own memory %p %zu", (void *)at, bytes);
	for (size_t i = 0; i < bytes; i += 512)
		if (at[i] != a->number + 1)
			differs(a, "own memory at %p holds %d", (void *)(at + i), at[i]);
	if (munmap(at, bytes) != 0)
		differs(a, "munmap of own memory");
}

static void on_a_set(struct actor *a)
{
	struct sembuf up = { 0, 1, chance(a, 2) ? SEM_UNDO : 0 },
		      down = { 0, -1, (short)(IPC_NOWAIT | up.sem_flg) };
	note(a, "semop");
	int before = semctl(a->set, 0, GETVAL);
	if (semop(a->set, &up, 1) != 0 || semctl(a->set, 0, GETVAL) != before + 1
	        || semop(a->set, &down, 1) != 0 || semctl(a->set, 0, GETVAL) != before)
		differs(a, "a semaphore of its own, before %d", before);
}

static void on_a_queue(struct actor *a)
{
	struct {
		long type;
		long text;
	} m = { 1 + chance(a, 9), a->steps }, got = { 0, 0 };
	note(a, "msgsnd, msgrcv");
	if (msgsnd(a->queue, &m, sizeof m.text, IPC_NOWAIT) != 0)
		differs(a, "msgsnd");
	if (msgrcv(a->queue, &got, sizeof got.text, m.type, IPC_NOWAIT) != sizeof got.text
	        || got.text != m.text)
		differs(a, "msgrcv");
}

static void on_new_objects(struct actor *a)
{
	int id = shmget(IPC_PRIVATE, PAGES * PAGE, 0600);
	note(a, "shmget %d", id);
	uint32_t *at = id == -1 ? (void *)-1 : shmat(id, NULL, 0);
	if (at == (void *)-1)
		differs(a, "a new segment");
	/* Removed first, as many programs do: its pages are free with the last detach. */
	if (shmctl(id, IPC_RMID, NULL) != 0)
		differs(a, "IPC_RMID");
	for (size_t i = 0; i < PAGES * PAGE / sizeof *at; i += 128)
		if (at[i] != 0)
			differs(a, "a new segment holds %x", at[i]);
	memset(at, 0xee, PAGES * PAGE);
	if (shmdt(at) != 0)
		differs(a, "shmdt of a new segment");
}

/* Ends a child whose parent has ended, or does within a second. */
static void outlive(pid_t parent)
{
	struct timespec nap = { 0, 5000000 };
	for (int i = 0; i < 200; i++) {
		if (getppid() != parent)
			_exit(0);
		nanosleep(&nap, NULL);
	}
}

/* A child finds in its attach table what it has in its addresses. */
static void on_a_child(struct actor *a)
{
	pthread_mutex_lock(&one_child);
	children++;
	int how = chance(a, 3);
	note(a, "fork, then %s", (const char *[]) { "_exit", "exec", "SIGKILL" }[how]);
	pid_t parent = getpid(), child = fork();
	if (child == 0) {
		for (int i = 0; i < SEGMENTS; i++) {
			struct segment *s = &a->segments[i];
			struct shmid_ds ds;
			int mine = 0;
			for (int j = 0; j < s->count; j++)
				mine += !s->pieces[j].childless;
			if (shmctl(s->id, IPC_STAT, &ds) != 0
			        || (int)ds.shm_nattch != s->count + mine) {
				outlive(parent);
				differs(a,
					"in a child segment %d has %d attaches, the model %d and %d",
					s->number, (int)ds.shm_nattch, s->count, mine);
			}
			for (int j = 0; j < s->count; j++)
				if (!s->pieces[j].childless)
					check_page(a, s, &s->pieces[j], 0);
		}
		if (how == 1)
			execl("/bin/true", "true", (char *)NULL);
		if (how == 2)
			kill(getpid(), SIGKILL);
		_exit(0);
	}
	int status = 0;
	if (child == -1)
		differs(a, "fork");
	while (waitpid(child, &status, 0) != child)
		if (errno != EINTR)
			differs(a, "waitpid");
	if (how == 2 ? !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		     : !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
		differs(a, "a child ended with %x", status);
	generation++;
	children--;
	for (int i = 0; i < SEGMENTS; i++)
		check_count(a, &a->segments[i]);
	pthread_mutex_unlock(&one_child);
}

/* ---- the handler ---- */

static void handler(int signal)
{
	(void)signal;
	struct actor *a = self;
	if (a == NULL || in_handler)
		return;
	in_handler = 1;
	int error = errno;
	/* Its own segment: the call that was interrupted may be in the middle of one of the others.
	 */
	uint32_t *at = shmat(a->handlers_segment, NULL, 0);
	if (at == (void *)-1)
		differs(a, "shmat in the handler");
	at[a->number] = 7;
	struct shmid_ds ds;
	long before = generation;
	if (shmctl(a->handlers_segment, IPC_STAT, &ds) != 0)
		differs(a, "IPC_STAT in the handler");
	if (children == 0 && generation == before && ds.shm_nattch != 1)
		differs(a, "the handler's segment has %d attaches", (int)ds.shm_nattch);
	struct sembuf up = { 1, 1, 0 };
	if (semop(a->set, &up, 1) != 0)
		differs(a, "semop in the handler");
	if (a->handled++ % 2 ? shmdt(at) : munmap(at, PAGE))
		differs(a, "detach in the handler");
	errno = error;
	in_handler = 0;
}

/* ---- the process ---- */

static void *act(void *context)
{
	struct actor *a = self = context;
	for (;;) {
		a->steps++;
		int kind = chance(a, 1000);
		if (kind < 600)
			on_a_segment(a);
		else if (kind < 850)
			on_own_memory(a);
		else if (kind < 900)
			on_a_set(a);
		else if (kind < 940)
			on_a_queue(a);
		else if (kind < 995)
			on_new_objects(a);
		else
			on_a_child(a);
	}
	return NULL;
}

/* Runs the threads for a while, and then ends in the middle of what they do. */
_Noreturn static void live(uint64_t random, long milliseconds)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < THREADS; i++) {
		actors[i].random = random * 2654435761u + (uint64_t)i * 977 + 1;
		if (pthread_create(&actors[i].thread, NULL, act, &actors[i]) != 0)
			differs(NULL, "pthread_create");
	}
	struct timespec nap = { 0, 1000000 };
	for (long i = 0; i < milliseconds; i++) {
		pthread_kill(actors[next_random(&random) % THREADS].thread, SIGUSR1);
		nanosleep(&nap, NULL);
	}
	long steps = 0, handled = 0;
	for (int i = 0; i < THREADS; i++)
		steps += actors[i].steps, handled += actors[i].handled;
	printf("%ld steps, %ld signals\n", steps, handled);
	fflush(stdout);
	switch (next_random(&random) % 4) {
	case 0: exit(0);
	case 1: _exit(0);
	case 2: syscall(SYS_exit_group, 0); abort();
	default: kill(getpid(), SIGKILL); abort();
	}
}

/* ---- beside it ---- */

static int made(int id, const char *what)
{
	if (id == -1)
		differs(NULL, "%s", what);
	return id;
}

static void make_objects(void)
{
	for (int i = 0; i < THREADS; i++) {
		struct actor *a = &actors[i];
		memset(a, 0, sizeof *a);
		a->number = i;
		a->handlers_segment = made(shmget(IPC_PRIVATE, PAGE, 0600), "shmget");
		a->set = made(semget(IPC_PRIVATE, 2, 0600), "semget");
		a->queue = made(msgget(IPC_PRIVATE, 0600), "msgget");
		for (int j = 0; j < SEGMENTS; j++) {
			struct segment *s = &a->segments[j];
			s->number = i * SEGMENTS + j;
			s->id = made(shmget(IPC_PRIVATE, PAGES * PAGE, 0600), "shmget");
			char *at = shmat(s->id, NULL, 0);
			for (int page = 0; page < PAGES; page++)
				*(uint32_t *)(at + (size_t)page * PAGE) = stamp(s->number, page);
			shmdt(at);
		}
	}
}

/* What a child held that was killed while the thread that had just waited for it ended, nobody is
 * left to give back but the agent, within about a second. */
static void await_detached(int id)
{
	struct timespec nap = { 0, 10000000 };
	struct shmid_ds ds;
	for (int i = 0; i < 2000 && shmctl(id, IPC_STAT, &ds) == 0 && ds.shm_nattch != 0; i++)
		nanosleep(&nap, NULL);
}

/* After the process has gone: nothing is attached, nothing was overwritten, and adjustments are
 * back. */
static void check_objects(void)
{
	struct shmid_ds ds;
	for (int i = 0; i < THREADS; i++) {
		struct actor *a = &actors[i];
		for (int j = 0; j < SEGMENTS; j++) {
			struct segment *s = &a->segments[j];
			await_detached(s->id);
			if (shmctl(s->id, IPC_STAT, &ds) != 0 || ds.shm_nattch != 0)
				differs(NULL, "after the end segment %d has %d attaches", s->number,
					(int)ds.shm_nattch);
			char *at = shmat(s->id, NULL, 0);
			for (int page = 0; page < PAGES; page++)
				if (*(uint32_t *)(at + (size_t)page * PAGE)
				        != stamp(s->number, page))
					differs(NULL,
						"after the end page %d of segment %d holds %x",
						page, s->number,
						*(uint32_t *)(at + (size_t)page * PAGE));
			shmdt(at);
			shmctl(s->id, IPC_RMID, NULL);
		}
		int value = semctl(a->set, 0, GETVAL);
		if (value != 0 && value != 1) /* 1: killed between a +1 and a -1 without SEM_UNDO */
			differs(NULL, "after the end a semaphore is %d", value);
		await_detached(a->handlers_segment);
		if (shmctl(a->handlers_segment, IPC_STAT, &ds) != 0 || ds.shm_nattch != 0)
			differs(NULL, "after the end a handler's segment has %d attaches",
				(int)ds.shm_nattch);
		shmctl(a->handlers_segment, IPC_RMID, NULL);
		semctl(a->set, 0, IPC_RMID);
		msgctl(a->queue, IPC_RMID, NULL);
	}
}

/* Segments that come and go beside the process: what it stores must not be found in them, least of
 * all while it ends. */
static void stand_by(void)
{
	for (int i = 0; i < BYSTANDERS; i++) {
		int id = made(shmget(IPC_PRIVATE, PAGES * PAGE, 0600), "shmget beside it");
		volatile uint32_t *at = shmat(id, NULL, 0);
		if (at == (void *)-1)
			differs(NULL, "shmat beside it");
		for (int look = 0; look < 20; look++)
			for (size_t word = 0; word < PAGES * PAGE / sizeof *at; word += 64)
				if (at[word] != 0)
					differs(NULL, "a new segment beside it holds %x", at[word]);
		shmdt((void *)at);
		shmctl(id, IPC_RMID, NULL);
	}
}

int main(int count, char **words)
{
	double seconds = count > 1 ? atof(words[1]) : 10;
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	seed = count > 2 ? strtoull(words[2], NULL, 10)
			 : (uint64_t)now.tv_nsec * 2862933555777941757u + 1;
	printf("seed %llu\n", (unsigned long long)seed);
	double end = (double)now.tv_sec + now.tv_nsec / 1e9 + seconds;
	uint64_t random = seed;
	long lives = 0;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	do {
		make_objects();
		fflush(stdout);
		long milliseconds = 100 + (long)(next_random(&random) % 900);
		pid_t child = fork();
		if (child == 0)
			live(random, milliseconds);
		int status;
		while (waitpid(child, &status, WNOHANG) == 0)
			stand_by();
		if (WIFEXITED(status) ? WEXITSTATUS(status) != 0 : WTERMSIG(status) != SIGKILL) {
			fprintf(stderr, "life %ld of seed %llu ended with %x\n", lives,
				(unsigned long long)seed, status);
			return 1;
		}
		/* Children that have outlived it. */
		while (wait(NULL) > 0)
			;
		check_objects();
		lives++;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((double)now.tv_sec + now.tv_nsec / 1e9 < end);
	printf("%ld lives, 0 differences\n", lives);
	return 0;
}

/* What a program pays for calls that have nothing to do with a pool: `interposed CALL N` makes N of
 * them and prints the ns of one. CPU time, of children too; of the barrier the time that passes.
 * `run` beside this file starts it with and without the library. */
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PARTIES 4

static char *itself;
static long count;

static double seconds(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double cpu_seconds(void)
{
	struct rusage children;
	getrusage(RUSAGE_CHILDREN, &children);
	const struct timeval *user = &children.ru_utime, *system = &children.ru_stime;
	return seconds(CLOCK_PROCESS_CPUTIME_ID) + (double)(user->tv_sec + system->tv_sec) +
		(double)(user->tv_usec + system->tv_usec) / 1e6;
}

static void check(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

static void ended(pid_t child, const char *what)
{
	int status;
	check(child > 0, what);
	check(waitpid(child, &status, 0) == child && status == 0, "a child");
}

static void forks(void)
{
	for (long i = 0; i < count; i++) {
		pid_t child = fork();
		if (child == 0)
			_exit(0);
		ended(child, "fork");
	}
}

static pid_t execute(void)
{
	pid_t child = vfork();
	if (child == 0) {
		execl(itself, itself, "nothing", (char *)NULL);
		_exit(1);
	}
	return child;
}

static void executes(void)
{
	for (long i = 0; i < count; i++)
		ended(execute(), "vfork");
}

static void opens(void)
{
	for (long i = 0; i < count; i++) {
		int file = open("/dev/zero", O_RDONLY);
		check(file >= 0, "open");
		close(file);
	}
}

static void reads(void)
{
	char byte;
	int file = open("/dev/zero", O_RDONLY);
	check(file >= 0, "open");
	for (long i = 0; i < count; i++)
		check(read(file, &byte, 1) == 1, "read");
	close(file);
}

static void locks(void)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	for (long i = 0; i < count; i++) {
		pthread_mutex_lock(&mutex);
		pthread_mutex_unlock(&mutex);
	}
}

static void posts(void)
{
	static sem_t semaphore;
	sem_init(&semaphore, 0, 0);
	for (long i = 0; i < count; i++) {
		sem_post(&semaphore);
		sem_wait(&semaphore);
	}
}

static void *meets(void *barrier)
{
	for (long i = 0; i < count; i++)
		pthread_barrier_wait(barrier);
	return NULL;
}

/* Of two processes with two threads each. */
static void barriers(void)
{
	pthread_barrierattr_t shared;
	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	int file = shm_open("/interposed", O_RDWR | O_CREAT | O_EXCL, 0600);
	check(file >= 0 && shm_unlink("/interposed") == 0 && ftruncate(file, 4096) == 0, "shm_open");
	pthread_barrier_t *barrier = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	check(barrier != MAP_FAILED, "mmap");
	pthread_barrier_init(barrier, &shared, PARTIES);
	pid_t child = fork();
	pthread_t second;
	check(pthread_create(&second, NULL, meets, barrier) == 0, "pthread_create");
	meets(barrier);
	pthread_join(second, NULL);
	if (child == 0)
		_exit(0);
	ended(child, "fork");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*make)(void);
		clockid_t passes;
	} calls[] = { { "fork", forks, 0 }, { "vfork-exec", executes, 0 }, { "open-close", opens, 0 }, { "read", reads, 0 },
		{ "mutex", locks, 0 }, { "semaphore", posts, 0 }, { "barrier", barriers, CLOCK_MONOTONIC } };
	if (argc == 2 && strcmp(argv[1], "nothing") == 0)
		return 0;
	itself = argv[0];
	count = argc == 3 ? atol(argv[2]) : 0;
	for (size_t i = 0; count > 0 && i < sizeof calls / sizeof *calls; i++)
		if (strcmp(argv[1], calls[i].name) == 0) {
			double before = calls[i].passes ? seconds(calls[i].passes) : cpu_seconds();
			calls[i].make();
			double after = calls[i].passes ? seconds(calls[i].passes) : cpu_seconds();
			printf("%.1f\n", (after - before) * 1e9 / (double)count);
			return 0;
		}
	fprintf(stderr, "usage: interposed fork|vfork-exec|open-close|read|mutex|semaphore|barrier N\n");
	return 2;
}

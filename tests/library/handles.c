/* Handles that are none: NULL, closed, closed twice; ids and addresses that mean nothing; pools
 * that are opened and closed by many threads; memory that outlives its maker.
 *   handles POOL */
#include "checks.h"
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ipc.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, TURNS = 100 };
static const char *name;

static void answers_ebadf(vshmem_pool *pool)
{
	struct sembuf up = { 0, 1, 0 };
	struct vshmem_domain domain;
	struct vshmem_address address = { 0, 1, 0 };
	uint8_t uuid[16];
	char text[64];
	uint32_t numbers[2];
	uint64_t size;
	void *memory;
	long type;
	vshmem_port *port;
	vshmem_lane *lane;
	returns(-EBADF, vshmem_neighbours(pool));
	returns(-EBADF, vshmem_domain(pool, &domain));
	returns(-EBADF, vshmem_domain_named(pool, "host", &domain));
	returns(-EBADF, vshmem_domain_alive(pool, &domain));
	returns(-EBADF, vshmem_client(pool, &size));
	returns(-EBADF, vshmem_client_alive(pool, 1 << 20));
	returns(0, vshmem_attaches(pool));
	returns(0, vshmem_base(pool));
	returns(0, vshmem_bytes(pool));
	returns(-EBADF, vshmem_hold(pool, 4096, &memory));
	returns(-EBADF, vshmem_release(pool, text));
	returns(-EBADF, vshmem_id(pool, text));
	returns(-EBADF, vshmem_attach(pool, 1, 1, &memory));
	returns(-EBADF, vshmem_shmget(pool, 1, 4096, IPC_CREAT));
	returns(-EBADF, vshmem_shmrm(pool, 1));
	returns(-EBADF, vshmem_shm_open(pool, "none", O_CREAT | O_RDWR, 0600, 1));
	returns(-EBADF, vshmem_shm_close(pool, 1));
	returns(-EBADF, vshmem_shm_bytes(pool, 1, &size));
	returns(-EBADF, vshmem_shm_resize(pool, 1, 1));
	returns(-EBADF, vshmem_shm_unlink(pool, "none"));
	returns(-EBADF, vshmem_shm_names(pool, "", NULL, NULL));
	returns(-EBADF, vshmem_wait(pool, numbers, 0, NULL));
	returns(-EBADF, vshmem_wake(pool, numbers, 1));
	returns(-EBADF, vshmem_semget(pool, 1, 1, IPC_CREAT));
	returns(-EBADF, vshmem_semop(pool, 1, &up, 1, NULL));
	returns(-EBADF, vshmem_semval(pool, 1, 0));
	returns(-EBADF, vshmem_semset(pool, 1, 0, 1));
	returns(-EBADF, vshmem_semrm(pool, 1));
	returns(-EBADF, vshmem_msgget(pool, 1, IPC_CREAT));
	returns(-EBADF, vshmem_msgsnd(pool, 1, 1, text, 1, 0));
	returns(-EBADF, vshmem_msgrcv(pool, 1, &type, text, 1, 0, 0));
	returns(-EBADF, vshmem_msgrm(pool, 1));
	returns(-EBADF, vshmem_port_make(pool, 1, 1 << 16, 1 << 16, &port));
	returns(-EBADF, vshmem_lane_claim(pool, &address, NULL, 0, &lane));
	vshmem_identify(pool, uuid);
	vshmem_whoami(pool, text, &numbers[0], &numbers[1]);
	returns(0, strlen(text));
	vshmem_close(pool);
}

/* One that was killed counts until the agent has noticed. */
static void alone(vshmem_pool *pool)
{
	alarm(60);
	while (vshmem_neighbours(pool) != 1)
		usleep(1000);
	alarm(0);
}

static void closed_handles(void)
{
	vshmem_pool *first = opened(name), *again = opened(name);
	returns(1, first == again);
	alone(first);
	vshmem_close(again);
	returns(1, vshmem_neighbours(first));
	vshmem_close(first);
	answers_ebadf(first);
	vshmem_pool *other = opened(name);
	vshmem_close(first);
	returns(1, vshmem_neighbours(other));
	vshmem_close(other);
}

static void wrong_arguments(void)
{
	vshmem_pool *pool = opened(name);
	struct sembuf up = { 0, 1, 0 }, far = { 9, 1, 0 };
	struct timespec wrong = { 0, 1000000000 };
	void *memory, *held;
	char text[8];
	int set = vshmem_semget(pool, IPC_PRIVATE, 1, 0600);
	for (int i = 0; i < 4; i++) {
		static const int ids[] = { -1, 0, 0x7fffffff, -0x7fffffff };
		returns(-EINVAL, vshmem_semop(pool, ids[i], &up, 1, NULL));
		returns(-EINVAL, vshmem_semval(pool, ids[i], 0));
		returns(-EINVAL, vshmem_msgsnd(pool, ids[i], 1, text, 1, 0));
		returns(-EINVAL, vshmem_msgrcv(pool, ids[i], NULL, text, 1, 0, 0));
		returns(-EINVAL, vshmem_attach(pool, ids[i], 1, &memory));
		returns(-EINVAL, vshmem_shmrm(pool, ids[i]));
		returns(-EINVAL, vshmem_shm_close(pool, ids[i]));
		returns(-EINVAL, vshmem_shm_resize(pool, ids[i], 1));
	}
	returns(-EFBIG, vshmem_semop(pool, set, &far, 1, NULL));
	returns(-EINVAL, vshmem_semop(pool, set, &up, 1, &wrong));
	returns(-EINVAL, vshmem_semop(pool, set, &up, 0, NULL));
	returns(-E2BIG, vshmem_semop(pool, set, &up, 1 << 20, NULL));
	returns(-ERANGE, vshmem_semset(pool, set, 0, -1));
	returns(0, vshmem_semrm(pool, set));
	returns(-EINVAL, vshmem_hold(pool, 0, &held));
	returns(0, vshmem_hold(pool, 100, &held) < 0);
	returns(-EBUSY, vshmem_attach(pool, vshmem_id(pool, held), 1, &memory));
	struct timespec soon = { 0, 1000000 };
	returns(-ETIMEDOUT, vshmem_wait(pool, held, 0, &soon));
	returns(0, vshmem_wait(pool, held, 1, &soon));
	returns(0, vshmem_wake(pool, held, 1));
	returns(-EINVAL, vshmem_wait(pool, held, 0, &wrong));
	returns(-EINVAL, vshmem_wait(pool, (void *)((char *)held + 1), 0, &soon));
	returns(-EINVAL, vshmem_wait(pool, vshmem_base(pool), 0, &soon));
	returns(-EINVAL, vshmem_wait(pool, (void *)text, 0, &soon));
	returns(-EINVAL, vshmem_wake(pool, (void *)text, 1));
	returns(0, vshmem_client_alive(pool, 0));
	returns(0, vshmem_client_alive(pool, UINT64_MAX));
	returns(-EINVAL, vshmem_release(pool, (char *)held + 1));
	returns(-EINVAL, vshmem_release(pool, text));
	returns(-EINVAL, vshmem_release(pool, NULL));
	returns(0, vshmem_release(pool, held));
	returns(-EINVAL, vshmem_release(pool, held));
	vshmem_close(pool);
	char message[8] = "xxxxxxx";
	returns(-ENODEV, vshmem_open("there-is-no-such-pool", &pool, message, sizeof message));
	returns(7, strlen(message));
	returns(-ENODEV, vshmem_open("/etc/passwd", &pool, NULL, 0));
	returns(-EINVAL, vshmem_open("\xff", &pool, NULL, 0));
}

/* An object by name: what two handles of it see, and what outlives its name. */
static void named_objects(void)
{
	vshmem_pool *pool = opened(name);
	void *memory, *again;
	uint64_t bytes = 1;
	returns(-ENOENT, vshmem_shm_open(pool, "/named", O_RDWR, 0, 0));
	returns(-EINVAL, vshmem_shm_open(pool, "/na/med", O_RDWR | O_CREAT, 0600, 1));
	returns(-EINVAL, vshmem_shm_open(pool, "/", O_RDWR | O_CREAT, 0600, 1));
	int id = vshmem_shm_open(pool, "/named", O_RDWR | O_CREAT | O_EXCL, 0600, 0);
	returns(1, id > 0);
	returns(-EINVAL, vshmem_attach(pool, id, 0, &memory));
	returns(-EEXIST, vshmem_shm_open(pool, "named", O_RDWR | O_CREAT | O_EXCL, 0600, 9));
	returns(id, vshmem_shm_open(pool, "named", O_RDWR | O_CREAT, 0600, 5000));
	returns(0, vshmem_shm_bytes(pool, id, &bytes));
	returns(5000, bytes);
	returns(-EINVAL, vshmem_shmrm(pool, id));
	returns(0, vshmem_attach(pool, id, 5000, &memory));
	memset(memory, 7, 5000);
	returns(-ENOSPC, vshmem_shm_resize(pool, id, 9000));
	returns(0, vshmem_shm_resize(pool, id, 10));
	returns(0, ((char *)memory)[10]);
	returns(7, ((char *)memory)[9]);
	returns(0, vshmem_release(pool, memory));
	returns(0, vshmem_shm_resize(pool, id, 9000));
	returns(0, vshmem_attach(pool, id, 9000, &again));
	returns(7, ((char *)again)[9]);
	returns(0, ((char *)again)[8999]);
	returns(0, vshmem_shm_unlink(pool, "named"));
	returns(-ENOENT, vshmem_shm_unlink(pool, "named"));
	returns(0, vshmem_shm_close(pool, id));
	returns(0, vshmem_shm_close(pool, id));
	returns(-EINVAL, vshmem_shm_close(pool, id));
	returns(7, ((char *)again)[9]);
	returns(0, vshmem_release(pool, again));
	returns(-EINVAL, vshmem_shm_bytes(pool, id, &bytes));
	vshmem_close(pool);
}

static int descriptors(void)
{
	int count = 0;
	DIR *directory = opendir("/proc/self/fd");
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

/* Opens, uses and closes, with others at the same time. */
static void *opener(void *set)
{
	for (int i = 0; i < TURNS; i++) {
		struct sembuf up = { 0, 1, 0 };
		vshmem_pool *pool = opened(name);
		returns(0, vshmem_semop(pool, *(int *)set, &up, 1, NULL));
		vshmem_close(pool);
	}
	return NULL;
}

static void many_threads(void)
{
	vshmem_pool *pool = opened(name);
	int set = vshmem_semget(pool, IPC_PRIVATE, 1, 0600);
	vshmem_close(pool);
	pool = opened(name);
	vshmem_close(pool);
	int before = descriptors();
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		returns(0, pthread_create(&threads[i], NULL, opener, &set));
	for (int i = 0; i < THREADS; i++)
		returns(0, pthread_join(threads[i], NULL));
	returns(before, descriptors());
	pool = opened(name);
	returns(THREADS * TURNS, vshmem_semval(pool, set, 0));
	returns(0, vshmem_semrm(pool, set));
	vshmem_close(pool);
}

/* A segment that a process has made and filled, which was then killed. */
static void memory_outlives_its_maker(void)
{
	int key = vshmem_key("outlives"), status;
	pid_t maker = fork();
	if (maker == 0) {
		void *memory;
		vshmem_pool *pool = opened(name);
		int id = vshmem_shmget(pool, key, 1 << 16, IPC_CREAT | IPC_EXCL | 0600);
		returns(0, vshmem_attach(pool, id, 1 << 16, &memory));
		memset(memory, 7, 1 << 16);
		raise(SIGKILL);
	}
	returns(maker, waitpid(maker, &status, 0));
	returns(SIGKILL, WTERMSIG(status));
	unsigned char *bytes;
	vshmem_pool *pool = opened(name);
	int id = vshmem_shmget(pool, key, 1 << 16, 0);
	returns(0, vshmem_attach(pool, id, 1 << 16, (void **)&bytes));
	returns(7, bytes[0]);
	returns(7, bytes[(1 << 16) - 1]);
	returns(0, vshmem_shmrm(pool, id));
	returns(-ENOENT, vshmem_shmget(pool, key, 1 << 16, 0));
	returns(7, bytes[4096]);
	returns(0, vshmem_release(pool, bytes));
	vshmem_close(pool);
}

int main(int count, char **words)
{
	if (count != 2)
		return 2;
	name = words[1];
	answers_ebadf(NULL);
	closed_handles();
	wrong_arguments();
	named_objects();
	many_threads();
	memory_outlives_its_maker();
	return 0;
}

/* A mapping over an attached segment that fails on its way: another file comes in the place of the
 * library's descriptor just before the pool is mapped, and a filter keeps the library from opening
 * the pool again. What lay at the address is gone, as after a mapping that the kernel could not
 * finish: it is no attach any more.
 *
 *   remapped shmat   a segment, with SHM_REMAP
 *   remapped mmap    a POSIX object, with MAP_FIXED */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>

#include "../conformance/share/direct.h"
#include "filter.h"
#include "trace.h"

enum { BYTES = 4096 };

static struct {
	volatile int is_replaced, may_replace;
	void *volatile at;
} *shared;

static int pool_files[8], pool_file_count;

/* Notes which descriptors are of the pool's file. */
static void find_pool_files(void)
{
	DIR *all = opendir("/proc/self/fd");
	if (!all)
		fail("/proc/self/fd");
	for (struct dirent *entry; (entry = readdir(all));) {
		char path[288], place[256] = "";
		snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
		if (readlink(path, place, sizeof place - 1) > 0
		        && strstr(place, getenv("VSHMEM_POOL_NAME")) && pool_file_count < 8)
			pool_files[pool_file_count++] = atoi(entry->d_name);
	}
	closedir(all);
	if (pool_file_count == 0)
		fail("the library's descriptor");
}

/* Past the library, which may hold a lock in the thread that is stopped. */
static void *replaces(void *file)
{
	wait_for(&shared->may_replace);
	for (int i = 0; i < pool_file_count; i++)
		if (direct(SYS_dup3, *(int *)file, pool_files[i], O_CLOEXEC, 0) < 0)
			fail("dup3");
	set_flag(&shared->is_replaced, 1);
	return NULL;
}

static long attaches(int id)
{
	struct shmid_ds status;
	if (shmctl(id, IPC_STAT, &status) != 0)
		fail("shmctl");
	return status.shm_nattch;
}

static int new_object(void)
{
	int file = shm_open("/remapped", O_RDWR | O_CREAT | O_EXCL, 0600);
	if (file == -1 || shm_unlink("/remapped") != 0 || ftruncate(file, BYTES) != 0)
		fail("an object");
	return file;
}

static void traced(int by_mmap)
{
	pthread_t thread;
	int first = shmget(IPC_PRIVATE, BYTES, 0600), second = shmget(IPC_PRIVATE, BYTES, 0600);
	int file = by_mmap ? new_object() : -1, both = PROT_READ | PROT_WRITE;
	void *at = shmat(first, NULL, 0);
	if (first == -1 || second == -1 || at == (void *)-1)
		fail("two segments");
	shared->at = at;
	find_pool_files();
	int other = memfd_create("other", MFD_CLOEXEC);
	if (other == -1 || pthread_create(&thread, NULL, replaces, &other) != 0)
		fail("a thread");
	trace_me();
	if (confine(NULL) != 0)
		fail("a filter");
	void *there = by_mmap ? mmap(at, BYTES, both, MAP_SHARED | MAP_FIXED, file, 0)
			      : shmat(second, at, SHM_REMAP);
	if (there != MAP_FAILED)
		fail("a pool that is not open is mapped");
	if (attaches(first) != 0 || attaches(second) != 0)
		fail("a segment counts an attach that is not mapped");
	shmctl(first, IPC_RMID, NULL);
	shmctl(second, IPC_RMID, NULL);
	_exit(0);
}

static int maps_over_the_segment(const struct ptrace_syscall_info *call)
{
	return call->entry.nr == SYS_mmap && call->entry.args[0] == (unsigned long)shared->at
		&& call->entry.args[3] & MAP_FIXED;
}

static void let_other_thread_replace(pid_t child)
{
	(void)child;
	set_flag(&shared->may_replace, 1);
	wait_for(&shared->is_replaced);
}

int main(int count, char **words)
{
	shared = shared_memory(sizeof *shared);
	pid_t child = fork();
	if (child == 0)
		traced(count > 1 && strcmp(words[1], "mmap") == 0);
	int status = run_traced(child, maps_over_the_segment, let_other_thread_replace);
	if (status != 0)
		printf("FAILED: the process has status 0x%x\n", status);
	return status != 0;
}

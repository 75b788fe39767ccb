/* FI_WAIT_FD: descriptors that become readable.
 *
 * A thread of this process sleeps at a semaphore of the pool, and writes the descriptors of all
 * that wait when a peer has raised it. It also does a few times a second, for peers that do not
 * know where this process sleeps, and because a peer may die before it wakes anybody. The thread
 * ends with the last descriptor; a later one has a thread of its own, which may begin before the
 * former one has ended. A child of a fork has neither its parent's thread nor its descriptors.
 *
 * Locking: the list's lock is taken inside no other, and none is taken inside it.
 */
#include "regions.h"
#include "wait.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

struct sleeper {
	pthread_t thread;
	vshmem_pool *pool;
	unsigned short number;
	bool ends;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct vfi_wait *waits;
static struct sleeper *sleeper; /* as long as there are some */

void vfi_waits_forked(void)
{
	pthread_mutex_init(&lock, NULL);
	waits = NULL;
	sleeper = NULL;
}

static void *sleep_on(void *argument)
{
	struct sleeper *own = argument;
	while (!__atomic_load_n(&own->ends, __ATOMIC_ACQUIRE)) {
		struct sembuf down = { .sem_num = own->number, .sem_op = -1 };
		struct timespec most = { .tv_nsec = VSHMEM_DESCRIPTORS_INTERVAL };
		int id = vfi_sleepers(own->pool);
		int rc = id < 0 ? id : vshmem_semop(own->pool, id, &down, 1, &most);
		/* The set is gone, or cannot be had: only the time wakes. */
		if (rc != 0 && rc != -EAGAIN)
			nanosleep(&most, NULL);
		pthread_mutex_lock(&lock);
		for (struct vfi_wait *wait = waits; wait; wait = wait->next)
			vfi_wait_signal(wait);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

/* With the lock held. The thread takes no signals: they are the program's. */
static bool start_thread(struct vfi_domain *domain)
{
	sigset_t all, before;
	char name[64];
	uint32_t index, client;
	struct sleeper *new = calloc(1, sizeof(*new));
	if (!new)
		return false;
	new->pool = domain->pool;
	vshmem_whoami(new->pool, name, &index, &client);
	new->number = (unsigned short)(client % VFI_SLEEPERS);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	bool runs = pthread_create(&new->thread, NULL, sleep_on, new) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (runs)
		sleeper = new;
	else
		free(new);
	return runs;
}

static void end_thread(struct sleeper *old)
{
	struct sembuf up = { .sem_num = old->number, .sem_op = 1 };
	__atomic_store_n(&old->ends, true, __ATOMIC_RELEASE);
	int id = vfi_sleepers(old->pool);
	if (id >= 0)
		vshmem_semop(old->pool, id, &up, 1, NULL);
	pthread_join(old->thread, NULL);
	free(old);
}

int vfi_wait_open(struct vfi_domain *domain, enum fi_wait_obj kind, struct vfi_wait **opened)
{
	if (kind != FI_WAIT_FD)
		return -FI_ENOSYS;
	struct vfi_wait *wait = calloc(1, sizeof(*wait));
	if (!wait)
		return -FI_ENOMEM;
	wait->domain = domain;
	wait->descriptor = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	bool good = wait->descriptor >= 0;
	unsigned short number = 0;
	pthread_mutex_lock(&lock);
	if (good && !sleeper)
		good = start_thread(domain);
	if (good) {
		number = sleeper->number;
		wait->next = waits;
		waits = wait;
	}
	pthread_mutex_unlock(&lock);
	if (!good) {
		if (wait->descriptor >= 0)
			close(wait->descriptor);
		free(wait);
		return -FI_ENOMEM;
	}
	vfi_memory_sleeps(domain, number);
	*opened = wait;
	return 0;
}

void vfi_wait_close(struct vfi_wait *wait)
{
	struct sleeper *last = NULL;
	pthread_mutex_lock(&lock);
	struct vfi_wait **link = &waits;
	while (*link && *link != wait)
		link = &(*link)->next;
	/* What a child has of its parent's is not in its list. */
	if (*link) {
		*link = wait->next;
		last = waits ? NULL : sleeper;
		sleeper = waits ? sleeper : NULL;
	}
	pthread_mutex_unlock(&lock);
	if (last)
		end_thread(last);
	close(wait->descriptor);
	free(wait);
}

int vfi_wait_control(struct vfi_wait *wait, int command, void *argument)
{
	switch (command) {
	case FI_GETWAIT: *(int *)argument = wait->descriptor; return 0;
	case FI_GETWAITOBJ: *(enum fi_wait_obj *)argument = FI_WAIT_FD; return 0;
	default: return -FI_ENOSYS;
	}
}

/* Whether something is there that was not read yet. */
static bool is_ready(struct fid *fid, uint64_t *value)
{
	if (fid->fclass == FI_CLASS_CQ) {
		struct vfi_cq *cq = container_of(fid, struct vfi_cq, fid.fid);
		vfi_progress_bound(cq->domain, &cq->bound);
		return __atomic_load_n(&cq->count, __ATOMIC_ACQUIRE) > 0
		        || __atomic_load_n(&cq->signalled, __ATOMIC_ACQUIRE);
	}
	struct vfi_counter *counter = container_of(fid, struct vfi_counter, fid.fid);
	vfi_progress_bound(counter->domain, &counter->bound);
	uint64_t before = *value;
	*value = __atomic_load_n(&counter->value, __ATOMIC_ACQUIRE)
	        + __atomic_load_n(&counter->errors, __ATOMIC_ACQUIRE);
	return before != UINT64_MAX && before != *value;
}

static struct vfi_wait *wait_of(struct fid *fid)
{
	if (fid->fclass == FI_CLASS_CQ)
		return container_of(fid, struct vfi_cq, fid.fid)->wait;
	if (fid->fclass == FI_CLASS_CNTR)
		return container_of(fid, struct vfi_counter, fid.fid)->wait;
	return NULL;
}

/* 0: the program may sleep at its descriptor now. */
static int try_one(struct fid *fid)
{
	struct vfi_wait *wait = wait_of(fid);
	uint64_t value = UINT64_MAX, drained;
	if (fid->fclass == FI_CLASS_EQ)
		return 0;
	if (!wait)
		return -FI_EINVAL;
	if (is_ready(fid, &value))
		return -FI_EAGAIN;
	while (read(wait->descriptor, &drained, sizeof(drained)) > 0)
		;
	struct vfi_record *record = wait->domain->memory->record;
	__atomic_store_n(&wait->armed, 1, __ATOMIC_RELAXED);
	if (record)
		__atomic_store_n(&record->sleeps, 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!is_ready(fid, &value))
		return 0;
	__atomic_store_n(&wait->armed, 0, __ATOMIC_RELAXED);
	return -FI_EAGAIN;
}

int vfi_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	(void)fabric;
	for (int nth = 0; nth < count; nth++) {
		int rc = try_one(fids[nth]);
		if (rc != 0)
			return rc;
	}
	return 0;
}

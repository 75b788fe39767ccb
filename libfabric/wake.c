/* Waking: a peer that sleeps, and the program's own thread that does.
 *
 * A peer that is about to sleep says so in its domain's record and then looks once more; a sender
 * publishes its message and then looks at that word. Both have a full fence between, so one of the
 * two sees the other.
 */
#include "regions.h"
#include "wait.h"

#include <sys/ipc.h>
#include <unistd.h>

int vfi_sleepers(vshmem_pool *pool)
{
	return vshmem_semget(pool, vshmem_key("vshmem: libfabric programs that wait"), VFI_SLEEPERS,
		IPC_CREAT | 0666);
}

void vfi_wake_open(struct vfi_endpoint *ep, struct vfi_peer *peer)
{
	char *start;
	if (!(peer->address.check & VFI_CHECK_SLEEPS) || peer->address.record == 0
	        || peer->address.record > INT32_MAX)
		return;
	if (vfi_attached_take(
		    ep->domain->pool, (int)peer->address.record, sizeof(struct vfi_record), &start)
	        != 0)
		return;
	peer->wake = (struct vfi_record *)start;
	peer->base.wakes = true;
}

void vfi_wake(struct vshmem_peers *peers, struct vshmem_peer *peer)
{
	struct vfi_endpoint *ep = vfi_endpoint_of(peers);
	struct vfi_record *record = ((struct vfi_peer *)peer)->wake;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&record->sleeps, __ATOMIC_RELAXED)
	        || !__atomic_exchange_n(&record->sleeps, 0, __ATOMIC_ACQ_REL))
		return;
	/* What the record says is a number of a set that is looked for here. */
	struct sembuf up = { .sem_num = (unsigned short)(record->semaphore_number % VFI_SLEEPERS),
		.sem_op = 1,
		.sem_flg = IPC_NOWAIT };
	int id = vfi_sleepers(ep->domain->pool);
	if (id >= 0)
		vshmem_semop(ep->domain->pool, id, &up, 1, NULL);
}

void vfi_wake_close(struct vfi_endpoint *ep, struct vfi_peer *peer)
{
	vfi_attached_drop(ep->domain->pool, (int)peer->address.record);
	peer->wake = NULL;
	peer->base.wakes = false;
}

void vfi_wait_signal(struct vfi_wait *wait)
{
	uint64_t one = 1;
	if (__atomic_load_n(&wait->armed, __ATOMIC_ACQUIRE)
	        && __atomic_exchange_n(&wait->armed, 0, __ATOMIC_ACQ_REL)
	        && write(wait->descriptor, &one, sizeof(one)) != (ssize_t)sizeof(one))
		vfi_log(FI_LOG_WARN, FI_LOG_CQ, "a descriptor cannot be written");
}

/* Children that are forked while other threads open and close pools: each opens the pool for
 * itself, gets EIO for what its parent has opened, and changes nothing of it.
 *   forked POOL ANOTHER-POOL */
#include "checks.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ipc.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 60, OPENERS = 2 };
static const char *name, *other_name;
static atomic_bool is_over;

static void *opener(void *unused)
{
	while (!atomic_load(&is_over))
		vshmem_close(opened(other_name));
	return unused;
}

struct opened_by_parent {
	vshmem_pool *pool;
	vshmem_port *port;
	vshmem_lane *lane;
	void *held;
	int set;
};

static void in_child(struct opened_by_parent *parents)
{
	struct sembuf up = { 0, 1, SEM_UNDO }, kept = { 0, 1, 0 };
	alarm(60);
	returns(-EIO, vshmem_semop(parents->pool, parents->set, &kept, 1, NULL));
	returns(-EIO, vshmem_release(parents->pool, parents->held));
	/* Closing what the parent has opened closes it for this process alone. */
	vshmem_lane_close(parents->lane);
	vshmem_port_close(parents->port);
	vshmem_close(parents->pool);
	vshmem_pool *pool = opened(name);
	returns(0, vshmem_semop(pool, parents->set, &kept, 1, NULL));
	returns(0, vshmem_semop(pool, parents->set, &up, 1, NULL));
	vshmem_close(pool);
	vshmem_close(opened(other_name));
	_exit(0);
}

int main(int count, char **words)
{
	if (count != 3)
		return 2;
	name = words[1];
	other_name = words[2];
	struct opened_by_parent ours = { .pool = opened(name) };
	struct vshmem_address address;
	struct vshmem_message message;
	int status;
	returns(0, vshmem_port_make(ours.pool, 2, 1 << 16, 1 << 14, &ours.port));
	vshmem_port_address(ours.port, &address);
	returns(0, vshmem_lane_claim(ours.pool, &address, NULL, 0, &ours.lane));
	returns(0, vshmem_hold(ours.pool, 4096, &ours.held));
	ours.set = vshmem_semget(ours.pool, IPC_PRIVATE, 1, 0600);
	pthread_t openers[OPENERS];
	for (int i = 0; i < OPENERS; i++)
		returns(0, pthread_create(&openers[i], NULL, opener, NULL));
	for (int i = 0; i < CHILDREN; i++) {
		pid_t child = fork();
		if (child == 0)
			in_child(&ours);
		returns(child, waitpid(child, &status, 0));
		returns(0, status);
		*(int *)ours.held += 1;
		returns(0, vshmem_post(ours.lane, "head", 4, "text", 4, 1));
		returns(1, vshmem_receive(ours.port, &message));
		vshmem_receive_done(ours.port, &message);
	}
	atomic_store(&is_over, 1);
	for (int i = 0; i < OPENERS; i++)
		returns(0, pthread_join(openers[i], NULL));
	returns(CHILDREN, *(int *)ours.held);
	returns(CHILDREN, vshmem_semval(ours.pool, ours.set, 0));
	returns(0, vshmem_semrm(ours.pool, ours.set));
	returns(0, vshmem_release(ours.pool, ours.held));
	vshmem_lane_close(ours.lane);
	vshmem_port_close(ours.port);
	vshmem_close(ours.pool);
	return 0;
}

/* The rtc component "vshmem", of mpirun: a machine whose domain the pool declares dead is lost.
 *
 * mpirun itself hears of it by the network, when connections to the machine time out: after
 * minutes. The pool knows at once. The processes of the job notice, too, and end it (watch.c); then
 * mpirun would still wait for the machine to answer.
 *
 * A machine is found among the pool's domains by the name that mpirun knows it by. One that the
 * pool has under another name, or not at all, is waited for as ever; so is one that is silent and
 * not dead, or has left the pool, as while it is moved to another host. Nor is mpirun in the way
 * when its own machine leaves. */
#include <stdlib.h>

#include "vshmem.h"

/* Between looks. */
static struct timeval interval = { .tv_usec = 250000 };

static int init(void);
static void finalize(void);
static int query(pmix_mca_base_module_t **found, int *priority);

/* The symbol that Open MPI looks for. */
PRTE_EXPORT extern prte_rtc_base_component_t prte_mca_rtc_vshmem_component;
prte_rtc_base_component_t prte_mca_rtc_vshmem_component = {
	OF_COMPONENT(
		PRTE_RTC_BASE_VERSION_1_0_0,
		.pmix_mca_component_name = "vshmem",
		.pmix_mca_query_component = query),
};

static prte_rtc_base_module_t module = { .init = init, .finalize = finalize };

static vshmem_pool *pool;
static prte_event_t timer;
/* By the number of a machine's daemon. */
static struct machine {
	enum { UNKNOWN, ALIVE, LOST } state;
	struct vshmem_domain domain;
} *machines;
static uint32_t count;

static int query(pmix_mca_base_module_t **found, int *priority)
{
	*found = (pmix_mca_base_module_t *)&module;
	*priority = 1;
	return PRTE_SUCCESS;
}

static struct machine *machine_of(const prte_node_t *node)
{
	uint32_t nth = number_of(&node->daemon->name);
	if (nth >= count) {
		uint32_t more = nth + 64;
		struct machine *grown = realloc(machines, more * sizeof(*grown));
		if (!grown)
			return NULL;
		for (; count < more; count++)
			grown[count].state = UNKNOWN;
		machines = grown;
	}
	return &machines[nth];
}

static bool open_pool(void)
{
	if (pool && vshmem_leaving(pool) != 0) {
		vshmem_close(pool);
		pool = NULL;
		/* Domains of another pool may come. */
		free(machines);
		machines = NULL;
		count = 0;
	}
	/* Once a second is often enough. */
	static unsigned looks;
	if (!pool && looks++ % 4 == 0
		&& vshmem_open(getenv("OMPI_MCA_btl_vshmem_pool"), &pool, NULL, 0) != 0)
		pool = NULL;
	return pool != NULL;
}

static void look_for_machines(void)
{
	for (int nth = 0; nth < prte_node_pool->size; nth++) {
		prte_node_t *node = pmix_pointer_array_get_item(prte_node_pool, nth);
		if (!node || !node->name || !node->daemon
		        || number_of(&node->daemon->name) == number_of(PRTE_PROC_MY_NAME))
			continue;
		struct machine *machine = machine_of(node);
		if (!machine)
			continue;
		if (machine->state == UNKNOWN
		        && vshmem_domain_named(pool, node->name, &machine->domain) == 0)
			machine->state = ALIVE;
		if (machine->state == ALIVE && vshmem_domain_alive(pool, &machine->domain) == 0) {
			machine->state = LOST;
			vshmem_say("machine %s is lost: its domain is dead, as the pool says",
				node->name);
			PRTE_ACTIVATE_PROC_STATE(&node->daemon->name, PRTE_PROC_STATE_COMM_FAILED);
		}
	}
}

static void look(int descriptor, short events, void *argument)
{
	(void)descriptor, (void)events, (void)argument;
	if (open_pool())
		look_for_machines();
	prte_event_evtimer_add(&timer, &interval);
}

static int init(void)
{
	/* The daemons hear from mpirun. */
	if (!PRTE_PROC_IS_MASTER || !open_pool())
		return PRTE_ERR_NOT_AVAILABLE;
	prte_event_evtimer_set(prte_event_base, &timer, look, NULL);
	prte_event_evtimer_add(&timer, &interval);
	return PRTE_SUCCESS;
}

static void finalize(void)
{
	prte_event_evtimer_del(&timer);
	if (pool)
		vshmem_close(pool);
	free(machines);
	machines = NULL;
	count = 0;
}

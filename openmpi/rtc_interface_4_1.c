/* The rtc component "vshmem", of mpirun: a machine whose domain the pool declares dead is lost.
 *
 * mpirun itself hears of it by the network, when connections to the machine time out: after
 * minutes. The pool knows at once. The processes of the job notice, too, and end it (watch.c); then
 * mpirun would still wait for the machine to answer.
 *
 * A machine is found among the pool's domains by the name that mpirun knows it by. One that the
 * pool has under another name, or not at all, is waited for as ever; so is one that is silent and
 * not dead, as while it is moved to another host. */
#include "orte_config.h"

#include <stdlib.h>

#include "opal/mca/event/event.h"
#include "orte/mca/rtc/rtc.h"
#include "orte/mca/state/state.h"
#include "orte/runtime/orte_globals.h"
#include "orte/util/proc_info.h"

#include "log.h"
#include "vshmem.h"

/* Between looks. */
static struct timeval interval = { .tv_usec = 250000 };

static int init(void);
static void finalize(void);
static int query(mca_base_module_t **found, int *priority);

/* The symbol that Open MPI looks for. */
OPAL_MODULE_DECLSPEC extern orte_rtc_base_component_t mca_rtc_vshmem_component;
orte_rtc_base_component_t mca_rtc_vshmem_component = {
	.base_version = {
		ORTE_RTC_BASE_VERSION_1_0_0,
		.mca_component_name = "vshmem",
		MCA_BASE_MAKE_VERSION(component, ORTE_MAJOR_VERSION, ORTE_MINOR_VERSION,
			ORTE_RELEASE_VERSION),
		.mca_query_component = query,
	},
	.base_data = { .param_field = MCA_BASE_METADATA_PARAM_CHECKPOINT },
};

static orte_rtc_base_module_t module = { .init = init, .finalize = finalize };

static vshmem_pool *pool;
static opal_event_t timer;
/* By the number of a machine's daemon. */
static struct machine {
	enum { UNKNOWN, ALIVE, LOST } state;
	struct vshmem_domain domain;
} *machines;
static uint32_t count;

static int query(mca_base_module_t **found, int *priority)
{
	*found = (mca_base_module_t *)&module;
	*priority = 1;
	return ORTE_SUCCESS;
}

static struct machine *machine_of(const orte_node_t *node)
{
	uint32_t nth = node->daemon->name.vpid;
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

static void look(int descriptor, short events, void *argument)
{
	(void)descriptor, (void)events, (void)argument;
	for (int nth = 0; nth < orte_node_pool->size; nth++) {
		orte_node_t *node = opal_pointer_array_get_item(orte_node_pool, nth);
		if (!node || !node->name || !node->daemon
		        || node->daemon->name.vpid == ORTE_PROC_MY_NAME->vpid)
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
			ORTE_ACTIVATE_PROC_STATE(&node->daemon->name, ORTE_PROC_STATE_COMM_FAILED);
		}
	}
	opal_event_evtimer_add(&timer, &interval);
}

static int init(void)
{
	/* The daemons hear from mpirun. */
	if (!ORTE_PROC_IS_HNP
	        || vshmem_open(getenv("OMPI_MCA_btl_vshmem_pool"), &pool, NULL, 0) != 0)
		return ORTE_ERR_NOT_AVAILABLE;
	opal_event_evtimer_set(orte_event_base, &timer, look, NULL);
	opal_event_evtimer_add(&timer, &interval);
	return ORTE_SUCCESS;
}

static void finalize(void)
{
	opal_event_evtimer_del(&timer);
	vshmem_close(pool);
	free(machines);
	machines = NULL;
	count = 0;
}

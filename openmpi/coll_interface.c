/* The component for collectives, as Open MPI knows it. */
#include "coll_vshmem.h"

#include "ompi/constants.h"
#include "ompi/group/group.h"

#include "parameters.h"

static bool ready;

static int register_parameters(void);
static int open_component(void);
static int close_component(void);
static int init(bool progress_threads, bool mpi_threads);
static mca_coll_base_module_t *query(struct ompi_communicator_t *comm, int *priority);

/* The symbol that Open MPI looks for. */
OMPI_DECLSPEC extern mca_coll_base_component_t mca_coll_vshmem_component;
mca_coll_base_component_t mca_coll_vshmem_component = {
	.collm_version = {
		MCA_COLL_BASE_VERSION_2_4_0,
		.mca_component_name = "vshmem",
		MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
			OMPI_RELEASE_VERSION),
		.mca_open_component = open_component,
		.mca_close_component = close_component,
		.mca_register_component_params = register_parameters,
	},
	.collm_data = { .param_field = MCA_BASE_METADATA_PARAM_CHECKPOINT },
	.collm_init_query = init,
	.collm_comm_query = query,
};

static int register_parameters(void)
{
	static struct vshmem_parameter numbers[] = {
		/* Above tuned (30). */
		{ "priority", "Rank among the components for collective calls; 0: not used", -1,
			100, 50, NULL, "" },
		{ "max_members", "Processes of a communicator whose calls go by a team, at most", 0,
			4096, 64, NULL, "" },
		{ "max_teams", "Communicators of a process that have a team at once, at most", 0,
			INT32_MAX, 64, NULL, "" },
		{ "after",
			"Calls of a communicator, by messages, before it gets a team: making one takes as long as many calls",
			0, INT32_MAX, 256, NULL, "" },
		{ "max_bytes", "Bytes of each process in a call that goes by a team, at most", 0,
			INT32_MAX, 8 << 10, NULL, "" },
		{ "piece_bytes",
			"How much of it goes at once. A team takes four times that for each member",
			1, 64 << 20, 8 << 10, NULL, "" },
		{ "count", "Say at the end how many collective calls went by teams", 0, 1, 0, NULL,
			"" },
	};
	vshmem_numbers(&mca_coll_vshmem_component.collm_version, "coll_vshmem", numbers,
		sizeof(numbers) / sizeof(numbers[0]));
	vshmem_coll_parameters = (struct vshmem_coll_parameters) {
		.priority = (int)numbers[0].value,
		.most_members = (int)numbers[1].value,
		.most_teams = (int)numbers[2].value,
		.after = (int)numbers[3].value,
		.most_bytes = (size_t)numbers[4].value,
		.piece_bytes = (size_t)numbers[5].value,
		.verbose = (int)numbers[6].value,
	};
	return OMPI_SUCCESS;
}

/* Only what is published now reaches the others: collectives are asked whether they can work after
 * the exchange. */
static int open_component(void)
{
	if (vshmem_coll_parameters.priority <= 0 || !PMIx_Initialized()
	        || !vshmem_coll_modex_publish(&mca_coll_vshmem_component.collm_version))
		return OMPI_ERR_NOT_AVAILABLE;
	return OMPI_SUCCESS;
}

static int close_component(void)
{
	if (ready) {
		vshmem_coll_nonblocking_close();
		vshmem_coll_close();
		vshmem_coll_modex_close();
	}
	ready = false;
	return OMPI_SUCCESS;
}

static int init(bool progress_threads, bool mpi_threads)
{
	(void)progress_threads, (void)mpi_threads;
	vshmem_coll_modex_open();
	ready = true;
	return OMPI_SUCCESS;
}

#define REMEMBER(call)                                                 \
	gathering->call = comm->c_coll->coll_##call;                   \
	gathering->call##_module = comm->c_coll->coll_##call##_module; \
	if (!gathering->call || !gathering->call##_module)             \
		return OMPI_ERR_NOT_FOUND;                             \
	OBJ_RETAIN(gathering->call##_module);

static int enable(mca_coll_base_module_t *module, struct ompi_communicator_t *comm)
{
	vshmem_gathering *gathering = (vshmem_gathering *)module;
	VSHMEM_CALLS(REMEMBER)
	return OMPI_SUCCESS;
}

/* Local, and the same for all members. Within one kernel Open MPI's own shared memory is left
 * alone. */
static mca_coll_base_module_t *query(struct ompi_communicator_t *comm, int *priority)
{
	if (!ready || OMPI_COMM_IS_INTER(comm) || ompi_comm_size(comm) < 2
	        || ompi_comm_size(comm) > vshmem_coll_parameters.most_members
	        || !ompi_group_have_remote_peers(comm->c_local_group))
		return NULL;
	vshmem_gathering *gathering = OBJ_NEW(vshmem_gathering);
	if (!gathering)
		return NULL;
	gathering->super.coll_module_enable = enable;
#define OFFER(call) gathering->super.coll_##call = vshmem_coll_##call;
	VSHMEM_CALLS(OFFER)
	*priority = vshmem_coll_parameters.priority;
	return &gathering->super;
}

static void construct(vshmem_gathering *gathering)
{
	gathering->warned = false;
	gathering->members = 0;
	gathering->blocking = gathering->nonblocking = (struct vshmem_use) { .way = UNDECIDED };
#define FORGET(call) gathering->call##_module = NULL;
	VSHMEM_CALLS(FORGET)
}

static void destruct(vshmem_gathering *gathering)
{
	vshmem_gathering_end(gathering);
#define RELEASE(call)                   \
	if (gathering->call##_module)   \
		OBJ_RELEASE(gathering->call##_module);
	VSHMEM_CALLS(RELEASE)
}

OBJ_CLASS_INSTANCE(vshmem_gathering, mca_coll_base_module_t, construct, destruct);

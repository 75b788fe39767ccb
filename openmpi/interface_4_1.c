/* What is particular to Open MPI 4.1: BTL interface 3.1.0. */
#include "btl_vshmem.h"

#include <stdlib.h>
#include <string.h>

#include "opal/class/opal_bitmap.h"
#include "opal/mca/pmix/pmix.h"
#include "opal/util/proc.h"

#if BTL_VERSION != 310
#error "this file is for BTL interface 3.1.0"
#endif

/* osc/rdma of 4.1 looks for this bit of the atomic flags among the other flags. It means that a
 * peer's atomics and the CPU's own may be mixed, which here they may: they are the same. */
#define CPU_ATOMICS_MIX MCA_BTL_ATOMIC_SUPPORTS_GLOB

struct vshmem_parameters vshmem_parameters = { .port_bytes = 4 << 20, .lane_bytes = 256 << 10 };

static int register_parameters(void);
static int open_component(void);
static int close_component(void);
static mca_btl_base_module_t **init(int *count, bool progress_threads, bool mpi_threads);
static int add_procs(struct mca_btl_base_module_t *btl, size_t count, struct opal_proc_t **procs,
		     struct mca_btl_base_endpoint_t **endpoints, struct opal_bitmap_t *reachable);
static int del_procs(struct mca_btl_base_module_t *btl, size_t count, struct opal_proc_t **procs,
		     struct mca_btl_base_endpoint_t **endpoints);
static int ft_event(int state);

/* The symbol that Open MPI looks for. */
OPAL_MODULE_DECLSPEC extern mca_btl_base_component_t mca_btl_vshmem_component;
mca_btl_base_component_t mca_btl_vshmem_component = {
	.btl_version = {
		MCA_BTL_DEFAULT_VERSION("vshmem"),
		.mca_open_component = open_component,
		.mca_close_component = close_component,
		.mca_register_component_params = register_parameters,
	},
	.btl_data = { .param_field = MCA_BASE_METADATA_PARAM_CHECKPOINT },
	.btl_init = init,
	.btl_progress = vshmem_btl_progress,
};

struct vshmem_btl vshmem_btl = {
	.super = {
		.btl_component = &mca_btl_vshmem_component,
		.btl_add_procs = add_procs,
		.btl_del_procs = del_procs,
		.btl_finalize = vshmem_btl_finalize,
		.btl_alloc = vshmem_btl_alloc,
		.btl_free = vshmem_btl_free,
		.btl_prepare_src = vshmem_btl_prepare_src,
		.btl_send = vshmem_btl_send,
		.btl_sendi = vshmem_btl_sendi,
		.btl_put = vshmem_btl_put,
		.btl_get = vshmem_btl_get,
		.btl_dump = mca_btl_base_dump,
		.btl_atomic_op = vshmem_btl_aop,
		.btl_atomic_fop = vshmem_btl_afop,
		.btl_atomic_cswap = vshmem_btl_acswap,
		.btl_register_mem = vshmem_register_mem,
		.btl_deregister_mem = vshmem_deregister_mem,
		.btl_ft_event = ft_event,
	},
};

bool vshmem_alone(void)
{
	return opal_process_info.num_local_peers == 0;
}

void vshmem_hand_up(mca_btl_base_tag_t tag, const void *text, uint32_t bytes)
{
	/* Tags come from peers. */
	if (tag >= MCA_BTL_TAG_MAX)
		return;
	const mca_btl_active_message_callback_t *callback = mca_btl_base_active_message_trigger + tag;
	if (!callback->cbfunc)
		return;
	mca_btl_base_segment_t segment = { .seg_len = bytes };
	segment.seg_addr.pval = (void *)(uintptr_t)text;
	mca_btl_base_descriptor_t descriptor = { .des_segments = &segment, .des_segment_count = 1 };
	callback->cbfunc(&vshmem_btl.super, tag, &descriptor, callback->cbdata);
}

static int register_parameters(void)
{
	mca_base_component_t *me = &mca_btl_vshmem_component.btl_version;
	vshmem_parameters.pool = NULL;
	mca_base_component_var_register(me, "pool", "Name of the pool (default: VSHMEM_POOL, or the guest's own)",
					MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0, OPAL_INFO_LVL_3,
					MCA_BASE_VAR_SCOPE_READONLY, &vshmem_parameters.pool);
	mca_base_component_var_register(me, "port_bytes",
					"Memory of the pool that each process receives in, however many send to it; at most what leaves half "
					"of the pool free",
					MCA_BASE_VAR_TYPE_SIZE_T, NULL, 0, 0, OPAL_INFO_LVL_5,
					MCA_BASE_VAR_SCOPE_READONLY, &vshmem_parameters.port_bytes);
	mca_base_component_var_register(me, "lane_bytes", "The most of it for one sender",
					MCA_BASE_VAR_TYPE_SIZE_T, NULL, 0, 0, OPAL_INFO_LVL_5,
					MCA_BASE_VAR_SCOPE_READONLY, &vshmem_parameters.lane_bytes);
	mca_base_component_var_register(me, "count", "Say at the end how many messages went through the pool",
					MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_5,
					MCA_BASE_VAR_SCOPE_READONLY, &vshmem_parameters.verbose);
	vshmem_btl_limits();
	return mca_btl_base_param_register(me, &vshmem_btl.super);
}

static int open_component(void)
{
	return OPAL_SUCCESS;
}

static int close_component(void)
{
	return OPAL_SUCCESS;
}

/* Processes of the job that may send to this one: itself among them, because osc/rdma reaches its own
 * process as it does all others. */
static uint32_t peers(void)
{
	uint32_t size = 0, *found = &size;
	int rc;
	opal_process_name_t all = { OPAL_PROC_MY_NAME.jobid, OPAL_VPID_WILDCARD };
	OPAL_MODEX_RECV_VALUE_OPTIONAL(rc, OPAL_PMIX_JOB_SIZE, &all, &found, OPAL_UINT32);
	if (rc != OPAL_SUCCESS || size == 0) {
		const char *word = getenv("OMPI_COMM_WORLD_SIZE");
		size = word ? (uint32_t)strtoul(word, NULL, 10) : 0;
	}
	return size ? size : 1;
}

static mca_btl_base_module_t **init(int *count, bool progress_threads, bool mpi_threads)
{
	(void)progress_threads, (void)mpi_threads;
	*count = 0;
	if (!vshmem_btl_open(peers()))
		return NULL;
	vshmem_btl.super.btl_flags |= CPU_ATOMICS_MIX;
	int rc;
	OPAL_MODEX_SEND(rc, OPAL_PMIX_GLOBAL, &mca_btl_vshmem_component.btl_version, &vshmem_btl.card,
			sizeof(vshmem_btl.card));
	mca_btl_base_module_t **modules = rc == OPAL_SUCCESS ? calloc(1, sizeof(*modules)) : NULL;
	if (!modules) {
		vshmem_btl_finalize(&vshmem_btl.super);
		return NULL;
	}
	modules[0] = &vshmem_btl.super;
	*count = 1;
	return modules;
}

static int add_procs(struct mca_btl_base_module_t *btl, size_t count, struct opal_proc_t **procs,
		     struct mca_btl_base_endpoint_t **endpoints, struct opal_bitmap_t *reachable)
{
	(void)btl;
	const opal_proc_t *me = opal_proc_local_get();
	for (size_t nth = 0; nth < count; nth++) {
		struct vshmem_card *card = NULL;
		size_t bytes = 0;
		int rc;
		endpoints[nth] = NULL;
		if (procs[nth]->proc_arch != me->proc_arch)
			continue;
		if (procs[nth] == me) {
			endpoints[nth] = vshmem_endpoint_open(&vshmem_btl.card.port);
			if (endpoints[nth] && reachable)
				opal_bitmap_set_bit(reachable, (int)nth);
			continue;
		}
		OPAL_MODEX_RECV(rc, &mca_btl_vshmem_component.btl_version, &procs[nth]->proc_name, (void **)&card,
				&bytes);
		/* Who has no card, or one of another pool, is somebody else's to reach. */
		if (rc == OPAL_SUCCESS && card && bytes == sizeof(*card) &&
		    memcmp(card->pool, vshmem_btl.card.pool, sizeof(card->pool)) == 0) {
			endpoints[nth] = vshmem_endpoint_open(&card->port);
			/* Open MPI asks for one peer without saying which. */
			if (endpoints[nth] && reachable)
				opal_bitmap_set_bit(reachable, (int)nth);
		}
		free(card);
	}
	return OPAL_SUCCESS;
}

static int del_procs(struct mca_btl_base_module_t *btl, size_t count, struct opal_proc_t **procs,
		     struct mca_btl_base_endpoint_t **endpoints)
{
	(void)btl, (void)procs;
	for (size_t nth = 0; nth < count; nth++) {
		if (endpoints[nth])
			vshmem_endpoint_close(endpoints[nth]);
		endpoints[nth] = NULL;
	}
	return OPAL_SUCCESS;
}

static int ft_event(int state)
{
	(void)state;
	return OPAL_SUCCESS;
}

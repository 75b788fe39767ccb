/* The component, as Open MPI knows it. What this calls of Open MPI: upcalls.c, modex.c. */
#include "btl_vshmem.h"

#include <stdlib.h>

#include "opal/class/opal_bitmap.h"
#include "opal/util/proc.h"

#include "parameters.h"

/* osc/rdma looks for this bit of the atomic flags among the other flags. It means that a
 * peer's atomics and the CPU's own may be mixed, which here they may: they are the same. */
#define CPU_ATOMICS_MIX MCA_BTL_ATOMIC_SUPPORTS_GLOB

static int register_parameters(void);
static int open_component(void);
static int close_component(void);
static mca_btl_base_module_t **init(int *count, bool progress_threads, bool mpi_threads);
static int add_procs(struct mca_btl_base_module_t *btl, size_t count, struct opal_proc_t **procs,
	struct mca_btl_base_endpoint_t **endpoints, struct opal_bitmap_t *reachable);
static int del_procs(struct mca_btl_base_module_t *btl, size_t count, struct opal_proc_t **procs,
	struct mca_btl_base_endpoint_t **endpoints);

/* The symbol that Open MPI looks for. */
OPAL_DECLSPEC extern mca_btl_base_component_t mca_btl_vshmem_component;
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

/* What Open MPI calls. */
static const mca_btl_base_module_t calls = {
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
	.btl_register_error = vshmem_register_error,
};

static int register_parameters(void)
{
	mca_base_component_t *me = &mca_btl_vshmem_component.btl_version;
	vshmem_btl.super = calls;
	vshmem_parameters.pool = NULL;
	mca_base_component_var_register(me, "pool",
		"Name of the pool (default: VSHMEM_POOL, or the guest's own)",
		MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0, OPAL_INFO_LVL_3, MCA_BASE_VAR_SCOPE_READONLY,
		&vshmem_parameters.pool);
	static struct vshmem_parameter numbers[] = {
		{ "port_bytes",
			"Memory of the pool that each process receives in, however many send to it; at most what leaves half "
			"of the pool free",
			4096, INT64_C(1) << 40, 4 << 20, NULL, "" },
		{ "lane_bytes", "The most of it for one sender; a power of two", 4096, 4 << 20,
			512 << 10, NULL, "" },
		{ "count", "Say at the end how many messages went through the pool", 0, 1, 0, NULL,
			"" },
	};
	vshmem_numbers(me, "btl_vshmem", numbers, sizeof(numbers) / sizeof(numbers[0]));
	vshmem_parameters.port_bytes = (size_t)numbers[0].value;
	for (vshmem_parameters.lane_bytes = 4096;
		vshmem_parameters.lane_bytes * 2 <= (size_t)numbers[1].value;)
		vshmem_parameters.lane_bytes *= 2;
	vshmem_parameters.verbose = (int)numbers[2].value;
	vshmem_btl_limits();
	return mca_btl_base_param_register(me, &vshmem_btl.super);
}

static int open_component(void) { return OPAL_SUCCESS; }

static int close_component(void) { return OPAL_SUCCESS; }

static mca_btl_base_module_t **init(int *count, bool progress_threads, bool mpi_threads)
{
	(void)progress_threads, (void)mpi_threads;
	*count = 0;
	if (!vshmem_btl_open(vshmem_modex_size()))
		return NULL;
	vshmem_btl.super.btl_flags |= CPU_ATOMICS_MIX;
	bool published = vshmem_modex_publish(&mca_btl_vshmem_component.btl_version);
	mca_btl_base_module_t **modules = published ? calloc(1, sizeof(*modules)) : NULL;
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
		struct vshmem_modex modex = vshmem_btl.modex;
		endpoints[nth] = NULL;
		if (procs[nth]->proc_arch != me->proc_arch)
			continue;
		/* A process without a modex, or of another pool, is reached by another
		 * component. */
		if (procs[nth] != me && !vshmem_modex_of(&procs[nth]->proc_name, &modex))
			continue;
		if (!vshmem_is_peer(&procs[nth]->proc_name, &modex))
			continue;
		endpoints[nth] = vshmem_endpoint_open(procs[nth]->proc_name.vpid, &modex);
		if (endpoints[nth])
			vshmem_watch_peer(endpoints[nth]);
		else
			vshmem_watch(&modex.domain);
		/* Open MPI asks for one peer without saying which. */
		if (endpoints[nth] && reachable)
			opal_bitmap_set_bit(reachable, (int)nth);
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

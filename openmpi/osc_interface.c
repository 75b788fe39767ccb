/* The osc component "vshmem": windows in the pool (osc_window.c); and windows of Open MPI 4.1's
 * osc/rdma, with the accumulates that it gets wrong done right, or refused.
 *
 * It is asked for a window before osc/rdma is. One that is not to be in the pool it has osc/rdma
 * make; only the calls that accumulate go by here:
 *
 * - What is fetched is unpacked from behind its buffer where osc/rdma takes a few numbers at once
 * to be atomics of the network (ompi_osc_rdma_gacc_amo) and any of the datatypes is not a plain
 * one, or the call is one of many bytes. Such a call goes through without these atomics: osc/rdma
 * then gets, combines and puts, under its lock as before.
 * - Pairs with a hole (MPI_DOUBLE_INT, ...) lie in its buffers without the hole, and its operations
 * read and write past their end. Where that does not matter they go through: one pair whose hole is
 * behind it. Others are refused.
 *
 * osc/pt2pt, which is the choice over plain networks, is no better with pairs, and loses parts of
 * large gets.
 */
#include "osc_vshmem.h"

#include <string.h>

#include "ompi/mca/osc/base/base.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/mca/btl/base/base.h"
#include "opal/mca/btl/btl.h"

#include "parameters.h"

static int register_parameters(void);
static int init(bool progress_threads, bool mpi_threads);
static int finalize(void);
static int query(struct ompi_win_t *win, void **base, size_t size, int unit,
	struct ompi_communicator_t *comm, struct opal_info_t *info, int flavor);
static int make(struct ompi_win_t *win, void **base, size_t size, int unit,
	struct ompi_communicator_t *comm, struct opal_info_t *info, int flavor, int *model);

/* The symbol that Open MPI looks for. */
OMPI_DECLSPEC extern ompi_osc_base_component_t mca_osc_vshmem_component;
ompi_osc_base_component_t mca_osc_vshmem_component = {
	.osc_version = {
		OMPI_OSC_BASE_VERSION_3_0_0,
		.mca_component_name = "vshmem",
		MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
			OMPI_RELEASE_VERSION),
		.mca_register_component_params = register_parameters,
	},
	.osc_data = { .param_field = MCA_BASE_METADATA_PARAM_CHECKPOINT },
	.osc_init = init,
	.osc_query = query,
	.osc_select = make,
	.osc_finalize = finalize,
};

/* What osc/rdma does. Its windows all have the same functions. */
static ompi_osc_base_module_t rdma;
static bool warned;

/* Transports whose fetching atomics go by here. */
static struct transport {
	mca_btl_base_module_t *btl;
	mca_btl_base_module_atomic_fop64_fn_t fetch;
} transports[16];
static size_t transport_count;
/* This thread is in a call that goes without them. */
static __thread bool without;

static int fetch(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
	void *local, uint64_t address, struct mca_btl_base_registration_handle_t *local_handle,
	struct mca_btl_base_registration_handle_t *remote_handle, mca_btl_base_atomic_op_t op,
	uint64_t operand, int flags, int order, mca_btl_base_rdma_completion_fn_t done,
	void *context, void *data)
{
	/* osc/rdma asks for any operation, whatever the transport says that it does. */
	bool does = op == MCA_BTL_ATOMIC_ADD || op == MCA_BTL_ATOMIC_AND || op == MCA_BTL_ATOMIC_OR
	        || op == MCA_BTL_ATOMIC_XOR || op == MCA_BTL_ATOMIC_SWAP;
	if (!without && does)
		for (size_t nth = 0; nth < transport_count; nth++)
			if (transports[nth].btl == btl)
				return transports[nth].fetch(btl, endpoint, local, address,
					local_handle, remote_handle, op, operand, flags, order,
					done, context, data);
	/* Its locks are taken by compare and swap and released without fetching: only the data is
	 * refused. */
	return OPAL_ERR_NOT_SUPPORTED;
}

static void stand_between(void)
{
	mca_btl_base_selected_module_t *item;
	OPAL_LIST_FOREACH(item, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t)
	{
		mca_btl_base_module_t *btl = item->btl_module;
		if (!btl->btl_atomic_fop || btl->btl_atomic_fop == fetch
		        || transport_count == sizeof(transports) / sizeof(transports[0]))
			continue;
		transports[transport_count++] = (struct transport) { btl, btl->btl_atomic_fop };
		btl->btl_atomic_fop = fetch;
	}
}

static int finalize(void)
{
	vshmem_window_close();
	while (transport_count > 0) {
		transport_count--;
		transports[transport_count].btl->btl_atomic_fop = transports[transport_count].fetch;
	}
	return OMPI_SUCCESS;
}

static int register_parameters(void)
{
	static struct vshmem_parameter numbers[] = {
		{ "direct", "1: windows are in the pool where that can be; 0: they are osc/rdma's", 0,
			1, 1, NULL, "" },
		{ "count", "Say at the end how many windows were in the pool", 0, 1, 0, NULL, "" },
	};
	vshmem_numbers(&mca_osc_vshmem_component.osc_version, "osc_vshmem", numbers,
		sizeof(numbers) / sizeof(numbers[0]));
	vshmem_osc_parameters = (struct vshmem_osc_parameters) {
		.direct = (int)numbers[0].value,
		.verbose = (int)numbers[1].value,
	};
	return OMPI_SUCCESS;
}

static int init(bool progress_threads, bool mpi_threads)
{
	(void)progress_threads, (void)mpi_threads;
	return OMPI_SUCCESS;
}

enum way { PLAIN, WITHOUT_ATOMICS, REFUSED };

static bool has_hole(const struct ompi_datatype_t *type)
{
	return type == &ompi_mpi_double_int.dt || type == &ompi_mpi_long_int.dt
	        || type == &ompi_mpi_short_int.dt || type == &ompi_mpi_longdbl_int.dt;
}

/* How an accumulate goes. What is not there (no result, an origin that is not looked at) has no
 * type. */
static enum way way_of(struct ompi_datatype_t *origin, struct ompi_datatype_t *result,
	struct ompi_datatype_t *target, int count)
{
	struct ompi_datatype_t *types[] = { origin, result, target };
	bool plain = true;
	for (size_t nth = 0; nth < sizeof(types) / sizeof(types[0]); nth++) {
		if (!types[nth])
			continue;
		bool predefined = ompi_datatype_is_predefined(types[nth]);
		const struct ompi_datatype_t *of =
			ompi_datatype_get_single_predefined_type_from_args(types[nth]);
		/* Numbers of several kinds, which MPI does not allow, crash it. Of pairs with a
		 * hole one by itself goes, if the hole is behind it. */
		if (!of
		        || (has_hole(of)
		                && (!predefined || count != 1 || of == &ompi_mpi_short_int.dt)))
			return REFUSED;
		plain &= predefined;
	}
	/* Of up to an eighth of osc/rdma's buffers, which are 32 KiB, plain datatypes are dealt
	 * with in one piece. */
	static const size_t piece = 4096;
	return plain && target->super.size * (size_t)count <= piece ? PLAIN : WITHOUT_ATOMICS;
}

static int refuse(void)
{
	if (!warned)
		vshmem_say(
			"an accumulate was refused: Open MPI's osc/rdma would do it wrong. Pairs with a hole (MPI_DOUBLE_INT, "
			"MPI_LONG_INT, MPI_LONG_DOUBLE_INT) are accumulated one by one, MPI_SHORT_INT and pairs within other datatypes "
			"not at all; MPI_2INT and MPI_FLOAT_INT are");
	warned = true;
	return MPI_ERR_UNSUPPORTED_OPERATION;
}

/* A call, by its way. */
#define GO(chosen, call)                         \
	do {                                     \
		enum way go = (chosen);          \
		if (go == REFUSED)               \
			return refuse();         \
		without = go == WITHOUT_ATOMICS; \
		int rc = (call);                 \
		without = false;                 \
		return rc;                       \
	} while (0)

/* The origin is not looked at. */
static struct ompi_datatype_t *looked_at(struct ompi_datatype_t *origin, const struct ompi_op_t *op)
{ return op == &ompi_mpi_op_no_op.op ? NULL : origin; }

static int accumulate(const void *origin, int count, struct ompi_datatype_t *type, int target,
	ptrdiff_t at, int target_count, struct ompi_datatype_t *target_type, struct ompi_op_t *op,
	struct ompi_win_t *win)
{
	GO(way_of(type, NULL, target_type, target_count),
		rdma.osc_accumulate(
			origin, count, type, target, at, target_count, target_type, op, win));
}

static int raccumulate(const void *origin, int count, struct ompi_datatype_t *type, int target,
	ptrdiff_t at, int target_count, struct ompi_datatype_t *target_type, struct ompi_op_t *op,
	struct ompi_win_t *win, struct ompi_request_t **request)
{
	GO(way_of(type, NULL, target_type, target_count),
		rdma.osc_raccumulate(origin, count, type, target, at, target_count, target_type, op,
			win, request));
}

static int get_accumulate(const void *origin, int count, struct ompi_datatype_t *type, void *result,
	int result_count, struct ompi_datatype_t *result_type, int target, ptrdiff_t at,
	int target_count, struct ompi_datatype_t *target_type, struct ompi_op_t *op,
	struct ompi_win_t *win)
{
	GO(way_of(looked_at(type, op), result_type, target_type, target_count),
		rdma.osc_get_accumulate(origin, count, type, result, result_count, result_type,
			target, at, target_count, target_type, op, win));
}

static int rget_accumulate(const void *origin, int count, struct ompi_datatype_t *type,
	void *result, int result_count, struct ompi_datatype_t *result_type, int target,
	ptrdiff_t at, int target_count, struct ompi_datatype_t *target_type, struct ompi_op_t *op,
	struct ompi_win_t *win, struct ompi_request_t **request)
{
	GO(way_of(looked_at(type, op), result_type, target_type, target_count),
		rdma.osc_rget_accumulate(origin, count, type, result, result_count, result_type,
			target, at, target_count, target_type, op, win, request));
}

static int fetch_and_op(const void *origin, void *result, struct ompi_datatype_t *type, int target,
	ptrdiff_t at, struct ompi_op_t *op, struct ompi_win_t *win)
{
	GO(way_of(type, type, type, 1),
		rdma.osc_fetch_and_op(origin, result, type, target, at, op, win));
}

/* osc/rdma itself, if it is there. */
static ompi_osc_base_component_t *below(void)
{
	mca_base_component_list_item_t *item;
	OPAL_LIST_FOREACH(
		item, &ompi_osc_base_framework.framework_components, mca_base_component_list_item_t)
	if (strcmp(item->cli_component->mca_component_name, "rdma") == 0)
		return (ompi_osc_base_component_t *)(uintptr_t)item->cli_component;
	return NULL;
}

/* Just above osc/rdma, wherever that stands. */
static int query(struct ompi_win_t *win, void **base, size_t size, int unit,
	struct ompi_communicator_t *comm, struct opal_info_t *info, int flavor)
{
	ompi_osc_base_component_t *component = below();
	int priority = component ? component->osc_query(win, base, size, unit, comm, info, flavor)
				 : -1;
	return priority < 0 ? -1 : priority + 1;
}

static int make(struct ompi_win_t *win, void **base, size_t size, int unit,
	struct ompi_communicator_t *comm, struct opal_info_t *info, int flavor, int *model)
{
	int rc = vshmem_window_make(win, base, size, unit, comm, flavor, model);
	if (rc != OMPI_ERR_NOT_AVAILABLE)
		return rc;
	ompi_osc_base_component_t *component = below();
	rc = component->osc_select(win, base, size, unit, comm, info, flavor, model);
	if (rc != OMPI_SUCCESS)
		return rc;
	stand_between();
	ompi_osc_base_module_t *module = win->w_osc_module;
	rdma = *module;
	module->osc_accumulate = accumulate;
	module->osc_raccumulate = raccumulate;
	module->osc_get_accumulate = get_accumulate;
	module->osc_rget_accumulate = rget_accumulate;
	module->osc_fetch_and_op = fetch_and_op;
	return OMPI_SUCCESS;
}

/* put, get and atomics, as Open MPI calls them. Memory of the pool is read at once, by the caller:
 * it is mapped here, too. For all else its owner is asked (one_sided.c).
 */
#include "btl_vshmem.h"

#include <string.h>

int vshmem_btl_put(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
	void *local, uint64_t address, mca_btl_base_registration_handle_t *local_handle,
	mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags, int order,
	mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
	(void)btl, (void)flags, (void)order;
	struct vshmem_one_sided call = { VSHMEM_PUT, 0, 0, 0, local, address, size, local_handle,
		remote_handle };
	return vshmem_one_sided_start(endpoint, &call, cbfunc, cbcontext, cbdata);
}

int vshmem_btl_get(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
	void *local, uint64_t address, mca_btl_base_registration_handle_t *local_handle,
	mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags, int order,
	mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
	(void)flags, (void)order;
	const void *there = vshmem_in_pool(endpoint, remote_handle, address, size);
	if (there) {
		memcpy(local, there, size);
		vshmem_in_pool_done(endpoint);
		cbfunc(btl, endpoint, local, local_handle, cbcontext, cbdata, OPAL_SUCCESS);
		return OPAL_SUCCESS;
	}
	struct vshmem_one_sided call = { VSHMEM_GET, 0, 0, 0, local, address, size, local_handle,
		remote_handle };
	return vshmem_one_sided_start(endpoint, &call, cbfunc, cbcontext, cbdata);
}

/* Not the smaller and the larger of two numbers: it is not known whether they have a sign. Nor the
 * logical operations: their numbers may be of any kind. osc/rdma then does both under a lock. (Open
 * MPI asks for any, whatever btl_atomic_flags says.) */
static int atomic(struct mca_btl_base_endpoint_t *endpoint, struct vshmem_one_sided *call,
	mca_btl_base_atomic_op_t op, int flags, mca_btl_base_rdma_completion_fn_t done,
	void *context, void *data)
{
	if (flags & MCA_BTL_ATOMIC_FLAG_FLOAT)
		return OPAL_ERR_NOT_SUPPORTED;
	switch (op) {
	case MCA_BTL_ATOMIC_ADD: call->op = VSHMEM_WIRE_SUM; break;
	case MCA_BTL_ATOMIC_AND: call->op = VSHMEM_WIRE_BAND; break;
	case MCA_BTL_ATOMIC_OR: call->op = VSHMEM_WIRE_BOR; break;
	case MCA_BTL_ATOMIC_XOR: call->op = VSHMEM_WIRE_BXOR; break;
	case MCA_BTL_ATOMIC_SWAP: call->op = VSHMEM_WIRE_WRITE; break;
	default: return OPAL_ERR_NOT_SUPPORTED;
	}
	call->what = VSHMEM_ATOMIC;
	call->bytes = flags & MCA_BTL_ATOMIC_FLAG_32BIT ? 4 : 8;
	return vshmem_one_sided_start(endpoint, call, done, context, data);
}

int vshmem_btl_aop(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
	uint64_t remote_address, mca_btl_base_registration_handle_t *remote_handle,
	mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
	mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
	(void)btl, (void)order;
	struct vshmem_one_sided call = {
		.operand = operand, .address = remote_address, .remote = remote_handle
	};
	return atomic(endpoint, &call, op, flags, cbfunc, cbcontext, cbdata);
}

int vshmem_btl_afop(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
	void *local_address, uint64_t remote_address,
	mca_btl_base_registration_handle_t *local_handle,
	mca_btl_base_registration_handle_t *remote_handle, mca_btl_base_atomic_op_t op,
	uint64_t operand, int flags, int order, mca_btl_base_rdma_completion_fn_t cbfunc,
	void *cbcontext, void *cbdata)
{
	(void)btl, (void)order;
	struct vshmem_one_sided call = { .operand = operand,
		.local = local_address,
		.address = remote_address,
		.local_handle = local_handle,
		.remote = remote_handle };
	return atomic(endpoint, &call, op, flags, cbfunc, cbcontext, cbdata);
}

int vshmem_btl_acswap(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
	void *local_address, uint64_t remote_address,
	mca_btl_base_registration_handle_t *local_handle,
	mca_btl_base_registration_handle_t *remote_handle, uint64_t compare, uint64_t value,
	int flags, int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
	void *cbdata)
{
	(void)btl, (void)order;
	struct vshmem_one_sided call = { .what = VSHMEM_ATOMIC,
		.op = VSHMEM_WIRE_SWAP_IF,
		.operand = value,
		.compare = compare,
		.local = local_address,
		.address = remote_address,
		.bytes = flags & MCA_BTL_ATOMIC_FLAG_32BIT ? 4 : 8,
		.local_handle = local_handle,
		.remote = remote_handle };
	return vshmem_one_sided_start(endpoint, &call, cbfunc, cbcontext, cbdata);
}

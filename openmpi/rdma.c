/* put, get and atomics, as Open MPI calls them. Memory of the pool is read at once, by the caller:
 * it is mapped here, too. For all else its owner is asked (one_sided.c).
 */
#include "atomics.h"

#include <string.h>

static int copy(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
	enum vshmem_one_sided what, void *local, uint64_t address,
	mca_btl_base_registration_handle_t *local_handle,
	mca_btl_base_registration_handle_t *remote, size_t size, int flags,
	mca_btl_base_rdma_completion_fn_t done, void *context, void *data)
{
	const void *there = what == VSHMEM_GET ? vshmem_in_pool(remote, address, size) : NULL;
	if (!there && size)
		return vshmem_one_sided_start(endpoint, what, local, address, local_handle, remote,
			size, 0, flags, 0, 0, done, context, data);
	if (there)
		memcpy(local, there, size);
	done(btl, endpoint, local, local_handle, context, data, OPAL_SUCCESS);
	return OPAL_SUCCESS;
}

int vshmem_btl_put(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
	void *local_address, uint64_t remote_address,
	mca_btl_base_registration_handle_t *local_handle,
	mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags, int order,
	mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
	(void)order;
	return copy(btl, endpoint, VSHMEM_PUT, local_address, remote_address, local_handle,
		remote_handle, size, flags, cbfunc, cbcontext, cbdata);
}

int vshmem_btl_get(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
	void *local_address, uint64_t remote_address,
	mca_btl_base_registration_handle_t *local_handle,
	mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags, int order,
	mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
	(void)order;
	return copy(btl, endpoint, VSHMEM_GET, local_address, remote_address, local_handle,
		remote_handle, size, flags, cbfunc, cbcontext, cbdata);
}

static int atomic(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
	enum vshmem_one_sided what, void *local, uint64_t address,
	mca_btl_base_registration_handle_t *local_handle,
	mca_btl_base_registration_handle_t *remote, mca_btl_base_atomic_op_t op, int flags,
	uint64_t first, uint64_t second, mca_btl_base_rdma_completion_fn_t done, void *context,
	void *data)
{
	uint64_t bytes = flags & MCA_BTL_ATOMIC_FLAG_32BIT ? 4 : 8;
	/* Open MPI asks for any, whatever btl_atomic_flags says. */
	if (what == VSHMEM_ATOMIC && (!is_supported(op) || flags & MCA_BTL_ATOMIC_FLAG_FLOAT))
		return OPAL_ERR_NOT_SUPPORTED;
	(void)btl;
	return vshmem_one_sided_start(endpoint, what, local, address, local_handle, remote, bytes,
		(uint16_t)op, flags, first, second, done, context, data);
}

int vshmem_btl_aop(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
	uint64_t remote_address, mca_btl_base_registration_handle_t *remote_handle,
	mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
	mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
	(void)order;
	return atomic(btl, endpoint, VSHMEM_ATOMIC, NULL, remote_address, NULL, remote_handle, op,
		flags, operand, 0, cbfunc, cbcontext, cbdata);
}

int vshmem_btl_afop(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
	void *local_address, uint64_t remote_address,
	mca_btl_base_registration_handle_t *local_handle,
	mca_btl_base_registration_handle_t *remote_handle, mca_btl_base_atomic_op_t op,
	uint64_t operand, int flags, int order, mca_btl_base_rdma_completion_fn_t cbfunc,
	void *cbcontext, void *cbdata)
{
	(void)order;
	return atomic(btl, endpoint, VSHMEM_ATOMIC, local_address, remote_address, local_handle,
		remote_handle, op, flags, operand, 0, cbfunc, cbcontext, cbdata);
}

int vshmem_btl_acswap(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
	void *local_address, uint64_t remote_address,
	mca_btl_base_registration_handle_t *local_handle,
	mca_btl_base_registration_handle_t *remote_handle, uint64_t compare, uint64_t value,
	int flags, int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
	void *cbdata)
{
	(void)order;
	return atomic(btl, endpoint, VSHMEM_SWAP_IF, local_address, remote_address, local_handle,
		remote_handle, 0, flags, compare, value, cbfunc, cbcontext, cbdata);
}

/* fi_atomic and its like. */
#include "../transport/atomic_apply.h"
#include "one_sided.h"

#include <string.h>

_Static_assert((int)FI_DOUBLE == VSHMEM_WIRE_DOUBLE && (int)FI_BXOR == VSHMEM_WIRE_BXOR
		&& (int)FI_ATOMIC_WRITE == VSHMEM_WIRE_WRITE
		&& (int)FI_MSWAP == VSHMEM_WIRE_SWAP_MASKED,
	"the wire has libfabric's numbers");

#define endpoint_of(fid) ((struct vfi_endpoint *)(fid))

/* What the calls have in common: the operands, what is compared, and where the result goes. */
struct operands {
	const struct fi_ioc *operand, *compare, *result;
	size_t operand_count, compare_count, result_count;
};

static uint64_t numbers_of(const struct fi_ioc *parts, size_t count)
{
	uint64_t numbers = 0;
	for (size_t nth = 0; nth < count; nth++)
		numbers += parts[nth].count;
	return numbers;
}

static void to_bytes(
	const struct fi_ioc *parts, size_t count, size_t unit, struct iovec bytes[VSHMEM_PARTS])
{
	for (size_t nth = 0; nth < count; nth++)
		bytes[nth] = (struct iovec) { parts[nth].addr, parts[nth].count * unit };
}

/* Operands in one piece: where they lie, or else collected in ROOM. */
static const void *in_one(
	const struct fi_ioc *parts, size_t count, size_t unit, char room[VSHMEM_ATOMIC_BYTES])
{
	struct iovec bytes[VSHMEM_PARTS];
	if (count <= 1)
		return count ? parts->addr : NULL;
	to_bytes(parts, count, unit, bytes);
	vshmem_gather(bytes, count, 0, room, vshmem_bytes_of(bytes, count));
	return room;
}

/* What is wrong with a call; 0: nothing. NUMBERS gets how many it is about. */
static int refuse(const struct vshmem_request *request, const struct operands *all,
	enum vshmem_atomic_call call, uint64_t *numbers)
{
	if (!vshmem_atomic_valid(request->number, request->op, call))
		return -FI_EOPNOTSUPP;
	if (all->operand_count > VSHMEM_PARTS || all->compare_count > VSHMEM_PARTS
		|| all->result_count > VSHMEM_PARTS)
		return -FI_EINVAL;
	bool reads = request->op == FI_ATOMIC_READ;
	uint64_t count = reads ? numbers_of(all->result, all->result_count)
			       : numbers_of(all->operand, all->operand_count);
	if (call != VSHMEM_ATOMIC_BASE && numbers_of(all->result, all->result_count) != count)
		return -FI_EINVAL;
	if (call == VSHMEM_ATOMIC_COMPARE && numbers_of(all->compare, all->compare_count) != count)
		return -FI_EINVAL;
	if (count == 0 || count > VSHMEM_ATOMIC_BYTES / vshmem_number_bytes(request->number))
		return -FI_EINVAL;
	*numbers = count;
	return 0;
}

static ssize_t start(struct fid_ep *fid, enum vshmem_atomic_call call,
	struct vshmem_request *request, const struct operands *all)
{
	char room[VSHMEM_ATOMIC_BYTES], compared[VSHMEM_ATOMIC_BYTES];
	struct iovec result[VSHMEM_PARTS], operands;
	uint64_t numbers;
	int rc = refuse(request, all, call, &numbers);
	if (rc != 0)
		return rc;
	size_t unit = vshmem_number_bytes(request->number);
	request->what = VSHMEM_ATOMIC;
	request->bytes = numbers * unit;
	if (request->op != FI_ATOMIC_READ) {
		operands.iov_base = (void *)(uintptr_t)in_one(
			all->operand, all->operand_count, unit, room);
		operands.iov_len = request->bytes;
		request->local = &operands;
		request->count = 1;
	}
	if (call == VSHMEM_ATOMIC_COMPARE)
		request->compare = in_one(all->compare, all->compare_count, unit, compared);
	if (call != VSHMEM_ATOMIC_BASE) {
		to_bytes(all->result, all->result_count, unit, result);
		request->result = result;
		request->result_count = all->result_count;
	}
	return vfi_one_sided(endpoint_of(fid), request);
}

/* Of an operation on one remote range. */
static struct vshmem_request request_of(fi_addr_t to, uint64_t address, uint64_t key,
	enum fi_datatype datatype, enum fi_op op, uint64_t flags, void *context)
{
	/* What is none is refused as such. */
	return (struct vshmem_request) { .to = to,
		.number = (unsigned)datatype > UINT8_MAX ? UINT8_MAX : (uint8_t)datatype,
		.op = (unsigned)op > UINT8_MAX ? UINT8_MAX : (uint8_t)op,
		.address = address,
		.key = key,
		.flags = flags & ~(FI_INJECT | FI_REMOTE_CQ_DATA),
		.context = context };
}

static ssize_t message(struct fid_ep *fid, enum vshmem_atomic_call call,
	const struct fi_msg_atomic *msg, struct operands *all, uint64_t flags)
{
	if (msg->rma_iov_count != 1)
		return -FI_EINVAL;
	all->operand = msg->msg_iov;
	all->operand_count = msg->iov_count;
	struct vshmem_request request = request_of(msg->addr, msg->rma_iov->addr, msg->rma_iov->key,
		msg->datatype, msg->op, flags, msg->context);
	return start(fid, call, &request, all);
}

static ssize_t base_parts(struct fid_ep *fid, const struct fi_ioc *parts, void **desc, size_t count,
	fi_addr_t to, uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op,
	void *context)
{
	(void)desc;
	struct operands all = { .operand = parts, .operand_count = count };
	struct vshmem_request request = request_of(
		to, addr, key, datatype, op, endpoint_of(fid)->tx_flags, context);
	return start(fid, VSHMEM_ATOMIC_BASE, &request, &all);
}

static ssize_t base(struct fid_ep *fid, const void *buf, size_t count, void *desc, fi_addr_t to,
	uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	struct fi_ioc part = { (void *)(uintptr_t)buf, count };
	return base_parts(fid, &part, &desc, 1, to, addr, key, datatype, op, context);
}

static ssize_t base_message(struct fid_ep *fid, const struct fi_msg_atomic *msg, uint64_t flags)
{
	struct operands all = { 0 };
	return message(fid, VSHMEM_ATOMIC_BASE, msg, &all, flags);
}

static ssize_t inject(struct fid_ep *fid, const void *buf, size_t count, fi_addr_t to,
	uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op)
{
	struct fi_ioc part = { (void *)(uintptr_t)buf, count };
	struct operands all = { .operand = &part, .operand_count = 1 };
	struct vshmem_request request = request_of(to, addr, key, datatype, op, 0, NULL);
	request.silent = true;
	return start(fid, VSHMEM_ATOMIC_BASE, &request, &all);
}

static ssize_t fetch_parts(struct fid_ep *fid, const struct fi_ioc *parts, void **desc,
	size_t count, struct fi_ioc *results, void **result_desc, size_t result_count, fi_addr_t to,
	uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	(void)desc, (void)result_desc;
	struct operands all = { .operand = parts,
		.operand_count = count,
		.result = results,
		.result_count = result_count };
	struct vshmem_request request = request_of(
		to, addr, key, datatype, op, endpoint_of(fid)->tx_flags, context);
	return start(fid, VSHMEM_ATOMIC_FETCH, &request, &all);
}

static ssize_t fetch(struct fid_ep *fid, const void *buf, size_t count, void *desc, void *result,
	void *result_desc, fi_addr_t to, uint64_t addr, uint64_t key, enum fi_datatype datatype,
	enum fi_op op, void *context)
{
	struct fi_ioc part = { (void *)(uintptr_t)buf, count }, got = { result, count };
	return fetch_parts(
		fid, &part, &desc, 1, &got, &result_desc, 1, to, addr, key, datatype, op, context);
}

static ssize_t fetch_message(struct fid_ep *fid, const struct fi_msg_atomic *msg,
	struct fi_ioc *results, void **result_desc, size_t result_count, uint64_t flags)
{
	(void)result_desc;
	struct operands all = { .result = results, .result_count = result_count };
	return message(fid, VSHMEM_ATOMIC_FETCH, msg, &all, flags);
}

static ssize_t compare_parts(struct fid_ep *fid, const struct fi_ioc *parts, void **desc,
	size_t count, const struct fi_ioc *compare, void **compare_desc, size_t compare_count,
	struct fi_ioc *results, void **result_desc, size_t result_count, fi_addr_t to,
	uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	(void)desc, (void)compare_desc, (void)result_desc;
	struct operands all = { parts, compare, results, count, compare_count, result_count };
	struct vshmem_request request = request_of(
		to, addr, key, datatype, op, endpoint_of(fid)->tx_flags, context);
	return start(fid, VSHMEM_ATOMIC_COMPARE, &request, &all);
}

static ssize_t compare(struct fid_ep *fid, const void *buf, size_t count, void *desc,
	const void *compared, void *compare_desc, void *result, void *result_desc, fi_addr_t to,
	uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	struct fi_ioc part = { (void *)(uintptr_t)buf, count }, got = { result, count },
		      with = { (void *)(uintptr_t)compared, count };
	return compare_parts(fid, &part, &desc, 1, &with, &compare_desc, 1, &got, &result_desc, 1,
		to, addr, key, datatype, op, context);
}

static ssize_t compare_message(struct fid_ep *fid, const struct fi_msg_atomic *msg,
	const struct fi_ioc *compared, void **compare_desc, size_t compare_count,
	struct fi_ioc *results, void **result_desc, size_t result_count, uint64_t flags)
{
	(void)compare_desc, (void)result_desc;
	struct operands all = { .compare = compared,
		.compare_count = compare_count,
		.result = results,
		.result_count = result_count };
	return message(fid, VSHMEM_ATOMIC_COMPARE, msg, &all, flags);
}

static int valid(
	enum fi_datatype datatype, enum fi_op op, enum vshmem_atomic_call call, size_t *count)
{
	if (!vshmem_atomic_valid(datatype, op, call))
		return -FI_EOPNOTSUPP;
	*count = VSHMEM_ATOMIC_BYTES / vshmem_number_bytes(datatype);
	return 0;
}

#define VALID(name, call)                                                                    \
	static int name(                                                                     \
		struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op, size_t *count) \
	{                                                                                    \
		(void)fid;                                                                   \
		return valid(datatype, op, call, count);                                     \
	}
VALID(base_valid, VSHMEM_ATOMIC_BASE)
VALID(fetch_valid, VSHMEM_ATOMIC_FETCH)
VALID(compare_valid, VSHMEM_ATOMIC_COMPARE)

struct fi_ops_atomic vfi_atomic_ops = {
	.size = sizeof(struct fi_ops_atomic),
	.write = base,
	.writev = base_parts,
	.writemsg = base_message,
	.inject = inject,
	.readwrite = fetch,
	.readwritev = fetch_parts,
	.readwritemsg = fetch_message,
	.compwrite = compare,
	.compwritev = compare_parts,
	.compwritemsg = compare_message,
	.writevalid = base_valid,
	.readwritevalid = fetch_valid,
	.compwritevalid = compare_valid,
};

int vfi_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op,
	struct fi_atomic_attr *attr, uint64_t flags)
{
	(void)domain;
	enum vshmem_atomic_call call = flags & FI_COMPARE_ATOMIC ? VSHMEM_ATOMIC_COMPARE
		: flags & FI_FETCH_ATOMIC                        ? VSHMEM_ATOMIC_FETCH
								 : VSHMEM_ATOMIC_BASE;
	if (flags & ~(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC | FI_TAGGED))
		return -FI_EINVAL;
	attr->size = vshmem_number_bytes(datatype);
	return valid(datatype, op, call, &attr->count);
}

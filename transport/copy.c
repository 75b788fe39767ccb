/* Copying between memory that is named in parts and memory in one piece. */
#include "copy.h"

#include <string.h>

int vshmem_slice(
	const struct iovec *parts, size_t count, uint64_t from, uint64_t bytes, struct iovec *slice)
{
	int slices = 0;
	for (size_t nth = 0; nth < count && bytes > 0; nth++) {
		if (from >= parts[nth].iov_len) {
			from -= parts[nth].iov_len;
			continue;
		}
		uint64_t here = parts[nth].iov_len - from;
		if (here > bytes)
			here = bytes;
		slice[slices++] = (struct iovec) { (char *)parts[nth].iov_base + from,
			(size_t)here };
		bytes -= here;
		from = 0;
	}
	return slices;
}

void vshmem_scatter(
	const struct iovec *parts, size_t count, uint64_t from, const void *text, uint64_t bytes)
{
	struct iovec slice[VSHMEM_PARTS];
	const char *next = text;
	int slices = vshmem_slice(parts, count, from, bytes, slice);
	for (int nth = 0; nth < slices; nth++) {
		vshmem_copy(slice[nth].iov_base, next, slice[nth].iov_len);
		next += slice[nth].iov_len;
	}
}

void vshmem_gather(
	const struct iovec *parts, size_t count, uint64_t from, void *text, uint64_t bytes)
{
	struct iovec slice[VSHMEM_PARTS];
	char *next = text;
	int slices = vshmem_slice(parts, count, from, bytes, slice);
	for (int nth = 0; nth < slices; nth++) {
		vshmem_copy(next, slice[nth].iov_base, slice[nth].iov_len);
		next += slice[nth].iov_len;
	}
}

void vshmem_copy(void *to, const void *from, uint64_t bytes)
{
	uintptr_t both = (uintptr_t)to | (uintptr_t)from;
	if (bytes == 8 && both % 8 == 0)
		__atomic_store_n((uint64_t *)to,
			__atomic_load_n((const uint64_t *)from, __ATOMIC_RELAXED),
			__ATOMIC_RELAXED);
	else if (bytes == 4 && both % 4 == 0)
		__atomic_store_n((uint32_t *)to,
			__atomic_load_n((const uint32_t *)from, __ATOMIC_RELAXED),
			__ATOMIC_RELAXED);
	else if (bytes > 0)
		memcpy(to, from, bytes);
}

/* Memory that is named in parts. */
#ifndef VSHMEM_COPY_H
#define VSHMEM_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* Parts of one memory at most. */
#define VSHMEM_PARTS 4

static inline size_t vshmem_bytes_of(const struct iovec *parts, size_t count)
{
	size_t bytes = 0;
	for (size_t nth = 0; nth < count; nth++)
		bytes += parts[nth].iov_len;
	return bytes;
}
/* Copies between BYTES in one place and parts, from FROM in the latter on. */
void vshmem_scatter(
	const struct iovec *parts, size_t count, uint64_t from, const void *text, uint64_t bytes);
void vshmem_gather(
	const struct iovec *parts, size_t count, uint64_t from, void *text, uint64_t bytes);
/* The parts of a range of parts. */
int vshmem_slice(const struct iovec *parts, size_t count, uint64_t from, uint64_t bytes,
	struct iovec *slice);
/* memcpy; a number that is aligned in both is copied at once. */
void vshmem_copy(void *to, const void *from, uint64_t bytes);

#endif

/* Memory that is named in parts. */
#ifndef VFI_COPY_H
#define VFI_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

static inline size_t vfi_bytes_of(const struct iovec *parts, size_t count)
{
	size_t bytes = 0;
	for (size_t nth = 0; nth < count; nth++)
		bytes += parts[nth].iov_len;
	return bytes;
}
/* Copies between BYTES in one place and parts, from FROM in the latter on. */
void vfi_scatter(
	const struct iovec *parts, size_t count, uint64_t from, const void *text, uint64_t bytes);
void vfi_gather(const struct iovec *parts, size_t count, uint64_t from, void *text, uint64_t bytes);
/* The parts of a range of parts. */
int vfi_slice(const struct iovec *parts, size_t count, uint64_t from, uint64_t bytes,
	struct iovec *slice);
/* memcpy; a number that is aligned in both is copied at once. */
void vfi_copy(void *to, const void *from, uint64_t bytes);

#endif

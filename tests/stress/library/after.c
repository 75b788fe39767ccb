/* A library that tells the program when the kernel has moved a mapping, before the caller of
 * mremap(2) goes on. Preloaded libraries come before this one, libc behind it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

void (*after_mremap)(void);

void *mremap(void *start, size_t bytes, size_t new_bytes, int flags, ...)
{
	va_list list;
	va_start(list, flags);
	void *to = va_arg(list, void *);
	va_end(list);
	/* Not by syscall(2), which a preloaded library has, too. */
	void *found = dlsym(RTLD_NEXT, "mremap");
	void *(*libcs)(void *, size_t, size_t, int, ...);
	memcpy(&libcs, &found, sizeof libcs);
	void *got = libcs(start, bytes, new_bytes, flags, to);
	if (after_mremap)
		after_mremap();
	return got;
}

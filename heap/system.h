/* System calls past every symbol: other libraries before libc follow what a program does with
 * addresses, and hold their locks over a fork. The result is the kernel's: a negative errno. */
#ifndef VSHMEM_HEAP_SYSTEM_H
#define VSHMEM_HEAP_SYSTEM_H

#include <sys/syscall.h>

static inline long heap_system(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	long result = number;
	__asm__ volatile("syscall"
		: "+a"(result)
		: "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
		: "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b,
			 x2 __asm__("x2") = c, x3 __asm__("x3") = d, x4 __asm__("x4") = e,
			 x5 __asm__("x5") = f;
	__asm__ volatile("svc 0"
		: "+r"(x0)
		: "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
		: "memory");
	return x0;
#else
#error "vshmem is for x86-64 and aarch64"
#endif
}

static inline int heap_failed(long result) { return result < 0 && result > -4096; }

/* Memory of this process alone, as anonymous as malloc's. */
static inline void *heap_private(unsigned long bytes, int flags)
{
	/* PROT_READ | PROT_WRITE; MAP_PRIVATE | MAP_ANONYMOUS */
	long at = heap_system(SYS_mmap, 0, (long)bytes, 3, 0x22 | flags, -1, 0);
	return heap_failed(at) ? (void *)0 : (void *)at;
}

#endif

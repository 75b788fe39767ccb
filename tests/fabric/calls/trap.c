#define _GNU_SOURCE
#include "trap.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096 };

/* Also for accesses by the kernel, which is for the privileged. */
static int open_trap(void) { return (int)syscall(SYS_userfaultfd, O_CLOEXEC); }

bool can_trap(void)
{
	int trap = open_trap();
	if (trap >= 0)
		close(trap);
	return trap >= 0;
}

static void demand(bool holds, const char *what)
{
	if (holds)
		return;
	perror(what);
	exit(1);
}

int set_trap(uint8_t *page)
{
	int trap = open_trap();
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register pages = { .range = { (uintptr_t)page, PAGE },
		.mode = UFFDIO_REGISTER_MODE_MISSING };
	demand(trap >= 0 && ioctl(trap, UFFDIO_API, &api) == 0, "userfaultfd");
	demand(madvise(page, PAGE, MADV_DONTNEED) == 0, "madvise");
	demand(ioctl(trap, UFFDIO_REGISTER, &pages) == 0, "UFFDIO_REGISTER");
	return trap;
}

void await_reader(int trap, int socket)
{
	struct pollfd either[] = { { .fd = trap, .events = POLLIN },
		{ .fd = socket, .events = POLLIN } };
	struct uffd_msg fault;
	demand(poll(either, 2, -1) > 0, "poll");
	if (either[0].revents && read(trap, &fault, sizeof(fault)) == (ssize_t)sizeof(fault)
	        && fault.event == UFFD_EVENT_PAGEFAULT)
		return;
	printf("the receiver has not read the page\n");
	exit(1);
}

void release_trap(int trap, uint8_t *page, const uint8_t *instead)
{
	struct uffdio_copy copy = {
		.dst = (uintptr_t)page, .src = (uintptr_t)instead, .len = PAGE
	};
	demand(ioctl(trap, UFFDIO_COPY, &copy) == 0, "UFFDIO_COPY");
	close(trap);
}

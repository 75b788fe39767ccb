// SPDX-License-Identifier: GPL-2.0
/*
 * For the driver's test: while it is loaded, every call of one function of the kernel fails for
 * lack of memory: insmod vshmem_failing.ko at=misc_register. So each step of the probe can fail.
 */
#include <linux/errno.h>
#include <linux/kprobes.h>
#include <linux/module.h>

static char *at = "misc_register";
module_param(at, charp, 0444);
MODULE_PARM_DESC(at, "the function, one that returns an error as a number or a pointer");

/* Entered instead of the function, with its arguments and its way back. */
static noinline long no_memory(void) { return -ENOMEM; }

static int enter_other(struct kprobe *probe, struct pt_regs *regs)
{
	regs->ip = (unsigned long)no_memory;
	return 1;
}

static struct kprobe probe = { .pre_handler = enter_other };

static int __init failing_init(void)
{
	probe.symbol_name = at;
	return register_kprobe(&probe);
}

static void __exit failing_exit(void) { unregister_kprobe(&probe); }

module_init(failing_init);
module_exit(failing_exit);

MODULE_DESCRIPTION("lets a function of the kernel fail, for the test of the vshmem driver");
MODULE_AUTHOR("The vshmem developers");
MODULE_LICENSE("GPL");

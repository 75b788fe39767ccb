// SPDX-License-Identifier: GPL-2.0
/*
 * Notice of the end of processes. A process registers; each open file of the device gets a notice
 * when it has ended. A file's release would come too late: a forked child holds the same open file.
 *
 * The kernel wakes the wait queue of a struct pid, which pidfds are polled on, when the last thread
 * of its process has ended. A watch is an entry in that queue.
 */
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "vshmem.h"

struct watch {
	wait_queue_entry_t entry; /* in pid->wait_pidfd while it lives */
	struct list_head listed;
	struct vshmem_device *device;
	struct pid *pid;
	u64 number;   /* which end it was */
};

static bool has_ended(struct pid *pid)
{
	struct task_struct *task;
	bool ended;

	rcu_read_lock();
	task = pid_task(pid, PIDTYPE_TGID);
	ended = !task || (READ_ONCE(task->exit_state) && thread_group_empty(task));
	rcu_read_unlock();
	return ended;
}

/* In the context of the process that ends, with locks held and interrupts off. */
static int process_ended(wait_queue_entry_t *entry, unsigned int mode, int flags, void *key)
{
	struct watch *watch = container_of(entry, struct watch, entry);
	struct vshmem_register *processes = &watch->device->processes;
	unsigned long interrupts;

	/* Some kernels wake it for the first thread as well. */
	if (!has_ended(watch->pid))
		return 0;
	list_del_init(&entry->entry);
	spin_lock_irqsave(&processes->lock, interrupts);
	watch->number = processes->ended++;
	list_move_tail(&watch->listed, &processes->dead);
	processes->kept++;
	spin_unlock_irqrestore(&processes->lock, interrupts);
	wake_up_interruptible_all(&watch->device->waiters);
	return 0;
}

static void forget(struct watch *watch)
{
	/* Also waits for `process_ended`, which runs under the queue's lock. */
	remove_wait_queue(&watch->pid->wait_pidfd, &watch->entry);
	put_pid(watch->pid);
	kfree(watch);
}

/* Frees those of the dead that no open file has still to be notified of. */
static void prune(struct vshmem_register *processes)
{
	struct watch *watch, *next;
	LIST_HEAD(old);

	spin_lock_irq(&processes->lock);
	while (processes->kept > VSHMEM_DEATHS_KEPT) {
		list_move(processes->dead.next, &old);
		processes->kept--;
		processes->watched--;
	}
	spin_unlock_irq(&processes->lock);
	list_for_each_entry_safe(watch, next, &old, listed)
		forget(watch);
}

void vshmem_register_init(struct vshmem_register *processes)
{
	spin_lock_init(&processes->lock);
	INIT_LIST_HEAD(&processes->alive);
	INIT_LIST_HEAD(&processes->dead);
}

void vshmem_register_free(struct vshmem_register *processes)
{
	struct watch *watch;

	for (;;) {
		spin_lock_irq(&processes->lock);
		watch = list_first_entry_or_null(&processes->alive, struct watch, listed);
		if (!watch)
			watch = list_first_entry_or_null(&processes->dead, struct watch, listed);
		spin_unlock_irq(&processes->lock);
		if (!watch)
			return;
		/* From here on it does not change lists. */
		remove_wait_queue(&watch->pid->wait_pidfd, &watch->entry);
		INIT_LIST_HEAD(&watch->entry.entry);
		spin_lock_irq(&processes->lock);
		list_del(&watch->listed);
		spin_unlock_irq(&processes->lock);
		put_pid(watch->pid);
		kfree(watch);
	}
}

int vshmem_register_caller(struct vshmem_device *device)
{
	struct vshmem_register *processes = &device->processes;
	struct watch *watch, *other;
	int result = 0;

	prune(processes);
	watch = kzalloc(sizeof(*watch), GFP_KERNEL_ACCOUNT);
	if (!watch)
		return -ENOMEM;
	watch->device = device;
	watch->pid = get_pid(task_tgid(current));
	init_waitqueue_func_entry(&watch->entry, process_ended);
	INIT_LIST_HEAD(&watch->entry.entry);

	spin_lock_irq(&processes->lock);
	list_for_each_entry(other, &processes->alive, listed)
	{
		if (other->pid == watch->pid) {
			result = -EALREADY;
			break;
		}
	}
	if (!result && processes->watched >= VSHMEM_WATCHES)
		result = -ENOSPC;
	if (!result) {
		list_add(&watch->listed, &processes->alive);
		processes->watched++;
	}
	spin_unlock_irq(&processes->lock);
	if (result) {
		put_pid(watch->pid);
		kfree(watch);
		return result == -EALREADY ? 0 : result;
	}
	/* The caller is alive, so nothing has been missed in between. */
	add_wait_queue(&watch->pid->wait_pidfd, &watch->entry);
	return 0;
}

long vshmem_tell_deaths(struct vshmem_file *opened, struct vshmem_deaths __user *argument)
{
	struct vshmem_register *processes = &opened->device->processes;
	struct vshmem_deaths deaths;
	struct watch *watch;
	s32 ended[64];
	u32 count = 0;
	u64 oldest;

	if (copy_from_user(&deaths, argument, sizeof(deaths)))
		return -EFAULT;
	if (deaths.reserved)
		return -EINVAL;
	deaths.room = min_t(u32, deaths.room, ARRAY_SIZE(ended));

	mutex_lock(&opened->lock);
	spin_lock_irq(&processes->lock);
	oldest = processes->ended - processes->kept;
	deaths.missed = oldest > opened->deaths_read ? oldest - opened->deaths_read : 0;
	opened->deaths_read = max(oldest, opened->deaths_read);
	list_for_each_entry(watch, &processes->dead, listed)
	{
		if (count >= deaths.room)
			break;
		if (watch->number < opened->deaths_read)
			continue;
		/* 0 for a process of a PID namespace that the caller cannot see. */
		ended[count++] = pid_vnr(watch->pid);
		opened->deaths_read++;
	}
	spin_unlock_irq(&processes->lock);
	mutex_unlock(&opened->lock);

	deaths.count = count;
	if (copy_to_user(u64_to_user_ptr(deaths.pids), ended, count * sizeof(ended[0]))
	        || copy_to_user(argument, &deaths, sizeof(deaths)))
		return -EFAULT;
	prune(processes);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/vshmem/NAME: the memory of an ivshmem device for unprivileged programs, with doorbells where
 * the device has interrupts. What the bus has to do with it is in pci.c.
 */
#include <linux/ctype.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <linux/uaccess.h>

#include "vshmem.h"

DEFINE_SRCU(vshmem_srcu);

/* Offset of the register that rings a peer: peer << 16 | vector. */
#define DOORBELL 12

/* The beginning of a pool's superblock, as crates/vshmem_wire lays it out. */
struct superblock {
	u8 magic[8];
	__le32 version;
	__le32 bytes;
	u8 uuid[16];
	u8 name[64];
};

static const u8 pool_magic[8] = { 'V', 'S', 'H', 'M', 'E', 'M', 0xF0, 0x01 };

static DEFINE_MUTEX(names_lock);
static LIST_HEAD(names);

static bool valid_name(const char *name)
{
	size_t length = strnlen(name, 64);
	size_t i;

	if (!length || length > 48 || name[0] == '.')
		return false;
	for (i = 0; i < length; i++)
		if (!isascii(name[i]) || !(isalnum(name[i]) || strchr("-_.", name[i])))
			return false;
	return true;
}

static bool name_in_use(const char *name)
{
	struct vshmem_device *other;

	list_for_each_entry(other, &names, named)
		if (!strcmp(other->name, name))
			return true;
	return false;
}

/* Peers may write there at any time: only the copy is looked at. */
static void choose_name(struct vshmem_device *device)
{
	struct superblock copy;

	memcpy(&copy, device->memory, sizeof(copy));
	copy.name[sizeof(copy.name) - 1] = 0;
	if (!memcmp(copy.magic, pool_magic, sizeof(copy.magic)) && valid_name(copy.name)
	        && !name_in_use(copy.name))
		strscpy(device->name, copy.name, sizeof(device->name));
	else
		strscpy(device->name, dev_name(device->parent), sizeof(device->name));
}

static struct vshmem_device *device_of(struct file *file)
{
	struct vshmem_file *opened = file->private_data;

	return opened->device;
}

static int vshmem_open(struct inode *inode, struct file *file)
{
	/* Withdrawal waits for misc_open, so the device is there. */
	struct vshmem_device *device = container_of(file->private_data, struct vshmem_device, misc);
	struct vshmem_file *opened = kzalloc(sizeof(*opened), GFP_KERNEL);

	if (!opened)
		return -ENOMEM;
	kref_get(&device->refs);
	opened->device = device;
	mutex_init(&opened->lock);
	opened->rings_read = atomic64_read(&device->rings);
	spin_lock_irq(&device->processes.lock);
	opened->deaths_read = device->processes.ended;
	spin_unlock_irq(&device->processes.lock);
	file->private_data = opened;
	file->f_mapping = device->inode->i_mapping;
	return nonseekable_open(inode, file);
}

static int vshmem_release(struct inode *inode, struct file *file)
{
	struct vshmem_file *opened = file->private_data;

	vshmem_device_put(opened->device);
	kfree(opened);
	return 0;
}

static bool is_rung(struct vshmem_file *opened)
{ return atomic64_read(&opened->device->rings) != READ_ONCE(opened->rings_read); }

static ssize_t vshmem_read(struct file *file, char __user *buffer, size_t bytes, loff_t *position)
{
	struct vshmem_file *opened = file->private_data;
	struct vshmem_device *device = opened->device;
	u64 now, news;
	int result;

	if (bytes < sizeof(news))
		return -EINVAL;
	if (!device->vectors)
		return -EOPNOTSUPP;
	for (;;) {
		mutex_lock(&opened->lock);
		now = atomic64_read(&device->rings);
		news = now - opened->rings_read;
		WRITE_ONCE(opened->rings_read, now);
		mutex_unlock(&opened->lock);
		if (news)
			break;
		if (READ_ONCE(device->gone))
			return -ENODEV;
		if (file->f_flags & O_NONBLOCK)
			return -EAGAIN;
		result = wait_event_interruptible(
			device->waiters, is_rung(opened) || READ_ONCE(device->gone));
		if (result)
			return result;
	}
	return copy_to_user(buffer, &news, sizeof(news)) ? -EFAULT : sizeof(news);
}

static __poll_t vshmem_poll(struct file *file, struct poll_table_struct *table)
{
	struct vshmem_file *opened = file->private_data;
	struct vshmem_device *device = opened->device;
	__poll_t result = 0;

	poll_wait(file, &device->waiters, table);
	if (READ_ONCE(device->gone))
		return EPOLLHUP | EPOLLERR;
	if (is_rung(opened))
		result |= EPOLLIN | EPOLLRDNORM;
	if (READ_ONCE(device->processes.ended) != READ_ONCE(opened->deaths_read))
		result |= EPOLLPRI;
	return result;
}

static long tell_info(struct vshmem_device *device, struct vshmem_info __user *argument)
{
	struct vshmem_info info = {
		.interface = VSHMEM_INTERFACE,
		.features = device->vectors ? VSHMEM_CAN_RING : 0,
		.bytes = device->bytes,
		.peer = device->peer,
		.vectors = device->vectors,
	};

	strscpy(info.name, device->name, sizeof(info.name));
	strscpy(info.place, dev_name(device->parent), sizeof(info.place));
	return copy_to_user(argument, &info, sizeof(info)) ? -EFAULT : 0;
}

static long ring_peer(struct vshmem_device *device, const struct vshmem_ring __user *argument)
{
	struct vshmem_ring ring;
	long result = -ENODEV;
	int key;

	if (copy_from_user(&ring, argument, sizeof(ring)))
		return -EFAULT;
	if (!device->vectors)
		return -EOPNOTSUPP;
	if (ring.peer > U16_MAX || ring.vector > U16_MAX)
		return -EINVAL;
	key = srcu_read_lock(&vshmem_srcu);
	if (!READ_ONCE(device->gone)) {
		/* What the caller has written to the memory is to be seen before. */
		wmb();
		iowrite32(ring.peer << 16 | ring.vector, device->registers + DOORBELL);
		result = 0;
	}
	srcu_read_unlock(&vshmem_srcu, key);
	return result;
}

/* 1 when the word has changed, 0 when not, or an error. */
static int has_changed(struct vshmem_device *device, u64 offset, u32 value)
{
	int key = srcu_read_lock(&vshmem_srcu);
	int result = -ENODEV;

	if (!READ_ONCE(device->gone))
		result = READ_ONCE(*(u32 *)(device->memory + offset)) != value;
	srcu_read_unlock(&vshmem_srcu, key);
	return result;
}

static long wait_for_change(struct vshmem_device *device, const struct vshmem_wait __user *argument)
{
	DEFINE_WAIT(waiter);
	struct vshmem_wait wait;
	ktime_t deadline = KTIME_MAX;
	long result;

	if (copy_from_user(&wait, argument, sizeof(wait)))
		return -EFAULT;
	if (wait.reserved || !IS_ALIGNED(wait.offset, sizeof(u32)) || wait.offset >= device->bytes)
		return -EINVAL;
	if (!device->vectors)
		return -EOPNOTSUPP;
	if (wait.timeout_ns >= 0)
		deadline = ktime_add_safe(ktime_get(), ns_to_ktime(wait.timeout_ns));
	for (;;) {
		ktime_t look_again = ktime_add_safe(ktime_get(), NSEC_PER_SEC);
		ktime_t until = min(deadline, look_again);

		prepare_to_wait(&device->waiters, &waiter, TASK_INTERRUPTIBLE);
		result = has_changed(device, wait.offset, wait.value);
		if (result)
			break;
		if (signal_pending(current)) {
			result = -EINTR;
			break;
		}
		if (ktime_compare(ktime_get(), deadline) >= 0) {
			result = -ETIMEDOUT;
			break;
		}
		schedule_hrtimeout(&until, HRTIMER_MODE_ABS);
	}
	finish_wait(&device->waiters, &waiter);
	return result > 0 ? 0 : result;
}

static long vshmem_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct vshmem_device *device = device_of(file);
	void __user *pointer = (void __user *)argument;

	if (READ_ONCE(device->gone))
		return -ENODEV;
	switch (command) {
	case VSHMEM_INFO: return tell_info(device, pointer);
	case VSHMEM_RING: return ring_peer(device, pointer);
	case VSHMEM_WAIT: return wait_for_change(device, pointer);
	case VSHMEM_REGISTER: return vshmem_register_caller(device);
	case VSHMEM_DEATHS: return vshmem_tell_deaths(file->private_data, pointer);
	default: return -ENOTTY;
	}
}

static const struct file_operations vshmem_operations = {
	.owner = THIS_MODULE,
	.open = vshmem_open,
	.release = vshmem_release,
	.read = vshmem_read,
	.poll = vshmem_poll,
	.mmap = vshmem_mmap,
	/* Places mappings so that huge pages fit. */
	.get_unmapped_area = thp_get_unmapped_area,
	.unlocked_ioctl = vshmem_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct vshmem_device *device_of_node(struct device *node)
{
	struct miscdevice *misc = dev_get_drvdata(node);

	return container_of(misc, struct vshmem_device, misc);
}

/* /sys/class/misc/vshmem-NAME/pages_mapped and huge_pages_mapped: whether programs have the memory
 * in pages of 2 MiB. No other file of the kernel says so of a device's memory. */
static ssize_t pages_mapped_show(
	struct device *node, struct device_attribute *attribute, char *text)
{
	return sysfs_emit(
		text, "%lld\n", (long long)atomic64_read(&device_of_node(node)->pages_mapped));
}
static DEVICE_ATTR_RO(pages_mapped);

static ssize_t huge_pages_mapped_show(
	struct device *node, struct device_attribute *attribute, char *text)
{
	return sysfs_emit(text, "%lld\n",
		(long long)atomic64_read(&device_of_node(node)->huge_pages_mapped));
}
static DEVICE_ATTR_RO(huge_pages_mapped);

static struct attribute *vshmem_attrs[] = {
	&dev_attr_pages_mapped.attr,
	&dev_attr_huge_pages_mapped.attr,
	NULL,
};
ATTRIBUTE_GROUPS(vshmem);

struct vshmem_device *vshmem_device_new(struct device *parent)
{
	struct vshmem_device *device = kzalloc(sizeof(*device), GFP_KERNEL);

	if (!device)
		return NULL;
	kref_init(&device->refs);
	INIT_LIST_HEAD(&device->named);
	device->parent = get_device(parent);
	device->peer = -1;
	atomic64_set(&device->rings, 0);
	init_waitqueue_head(&device->waiters);
	vshmem_register_init(&device->processes);
	return device;
}

static void vshmem_device_free(struct kref *refs)
{
	struct vshmem_device *device = container_of(refs, struct vshmem_device, refs);

	vshmem_register_free(&device->processes);
	vshmem_memory_free(device);
	put_device(device->parent);
	kfree(device);
}

void vshmem_device_put(struct vshmem_device *device)
{ kref_put(&device->refs, vshmem_device_free); }

/* Makes the device's node. */
int vshmem_publish(struct vshmem_device *device, umode_t mode)
{
	int result;

	mutex_lock(&names_lock);
	choose_name(device);
	snprintf(device->kobject_name, sizeof(device->kobject_name), "vshmem-%s", device->name);
	snprintf(device->node_name, sizeof(device->node_name), "vshmem/%s", device->name);
	device->misc.minor = MISC_DYNAMIC_MINOR;
	device->misc.name = device->kobject_name;
	device->misc.nodename = device->node_name;
	device->misc.mode = mode;
	device->misc.fops = &vshmem_operations;
	device->misc.parent = device->parent;
	device->misc.groups = vshmem_groups;
	result = misc_register(&device->misc);
	if (!result)
		list_add(&device->named, &names);
	mutex_unlock(&names_lock);
	return result;
}

/* Takes the node away, and the hardware from under those who still have it open. */
void vshmem_withdraw(struct vshmem_device *device)
{
	mutex_lock(&names_lock);
	misc_deregister(&device->misc);
	list_del_init(&device->named);
	mutex_unlock(&names_lock);
	WRITE_ONCE(device->gone, true);
	synchronize_srcu(&vshmem_srcu);
	vshmem_memory_unmap(device);
	wake_up_all(&device->waiters);
	vshmem_memory_wait_for_pages(device);
}

static int __init vshmem_init(void)
{
	int result = vshmem_memory_setup();

	if (result)
		return result;
	result = pci_register_driver(&vshmem_pci_driver);
	if (result)
		vshmem_memory_teardown();
	return result;
}

static void __exit vshmem_exit(void)
{
	pci_unregister_driver(&vshmem_pci_driver);
	vshmem_memory_teardown();
}

module_init(vshmem_init);
module_exit(vshmem_exit);

MODULE_DESCRIPTION(
	"vshmem: the memory and the doorbells of ivshmem devices for unprivileged programs");
MODULE_AUTHOR("The vshmem developers");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1.0");

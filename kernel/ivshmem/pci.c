// SPDX-License-Identifier: GPL-2.0
/* ivshmem devices as QEMU makes them: BAR 0 registers, BAR 1 MSI-X, BAR 2 memory. */
#include <linux/cpumask.h>
#include <linux/interrupt.h>
#include <linux/module.h>
#include <linux/pci.h>

#ifdef CONFIG_X86
#include <asm/cpufeature.h>
#include <asm/processor.h>
#if __has_include(<asm/cpuid/api.h>)
#include <asm/cpuid/api.h>
#endif
#endif

#include "vshmem.h"

#define REGISTERS_BAR 0
#define MEMORY_BAR    2
/* Offset of the register that holds this machine's number. */
#define IV_POSITION 8

static ushort mode = 0600;
module_param(mode, ushort, 0444);
MODULE_PARM_DESC(mode, "mode of /dev/vshmem/NAME where no udev rule sets another (default 0600)");

/*
 * QEMU's emulation makes atomic operations for others than this machine only where the machine has
 * room for two processors. The device's memory is shared with others: changes would be lost.
 */
static bool loses_changes(void)
{
#ifdef CONFIG_X86
	u32 most, name[3];

	/* From 6.9 on a place in this package that is empty is not a possible CPU. */
	if (num_possible_cpus() > 1 || (cpuid_ebx(1) >> 16 & 0xff) > 1
	        || !boot_cpu_has(X86_FEATURE_HYPERVISOR))
		return false;
	cpuid(0x40000000, &most, &name[0], &name[1], &name[2]);
	return !memcmp(name, "TCGTCGTCGTCG", sizeof(name));
#else
	return false;
#endif
}

static irqreturn_t notified(int irq, void *cookie)
{
	struct vshmem_device *device = cookie;

	atomic64_inc(&device->rings);
	wake_up_interruptible_all(&device->waiters);
	return IRQ_HANDLED;
}

static void shut_interrupts(void *cookie)
{
	struct vshmem_device *device = cookie;
	struct pci_dev *pci = to_pci_dev(device->parent);
	int i;

	for (i = 0; i < device->vectors; i++)
		pci_free_irq(pci, i, device);
	pci_free_irq_vectors(pci);
	pci_clear_master(pci);
}

/* A device without interrupts (ivshmem-plain) is none the worse for it. */
static int set_up_interrupts(struct pci_dev *pci, struct vshmem_device *device)
{
	int vectors, result, i;

	vectors = pci_alloc_irq_vectors(pci, 1, 4, PCI_IRQ_MSIX);
	if (vectors < 1)
		return 0;
	for (i = 0; i < vectors; i++) {
		result = pci_request_irq(pci, i, notified, NULL, device, "vshmem-%s", pci_name(pci));
		if (result)
			goto free;
	}
	/* MSI-X messages are the device's writes to memory. */
	pci_set_master(pci);
	device->vectors = vectors;
	device->peer = ioread32(device->registers + IV_POSITION);
	return devm_add_action_or_reset(&pci->dev, shut_interrupts, device);
free:
	while (i--)
		pci_free_irq(pci, i, device);
	pci_free_irq_vectors(pci);
	return result;
}

/*
 * Keeps others off the device's BARs until the driver's other resources have been given up. Not by
 * pci_request_regions: what becomes of those at the end differs between kernels (before 6.12 they
 * are freed once more by pcim_enable_device).
 */
static int request_regions(struct pci_dev *pci)
{
	int bar;

	for (bar = 0; bar < PCI_STD_NUM_BARS; bar++) {
		if (!(pci_resource_flags(pci, bar) & IORESOURCE_MEM) || !pci_resource_len(pci, bar))
			continue;
		if (!devm_request_mem_region(&pci->dev, pci_resource_start(pci, bar),
			    pci_resource_len(pci, bar), "vshmem"))
			return -EBUSY;
	}
	return 0;
}

static void put_device_structure(void *cookie) { vshmem_device_put(cookie); }

static void withdraw(void *cookie) { vshmem_withdraw(cookie); }

/*
 * There is no `remove`: what a step has set up is undone by devres, last step first, and also when
 * a later step fails. The device's structure is the first step, because the pages, the interrupts
 * and the node have parts of it in their hands until they are gone. Open files may keep it longer.
 */
static int vshmem_probe(struct pci_dev *pci, const struct pci_device_id *id)
{
	struct vshmem_device *device;
	int result;

	if (loses_changes()) {
		pci_err(pci,
			"QEMU emulates this machine (TCG) with room for one CPU: its atomic operations are none for others; start QEMU with -smp 1,maxcpus=2 or more CPUs\n");
		return -EOPNOTSUPP;
	}
	device = vshmem_device_new(&pci->dev);
	if (!device)
		return -ENOMEM;
	result = devm_add_action_or_reset(&pci->dev, put_device_structure, device);
	if (result)
		return result;
	result = pcim_enable_device(pci);
	if (result)
		return result;
	result = request_regions(pci);
	if (result)
		return result;
	device->registers = pcim_iomap(pci, REGISTERS_BAR, 0);
	if (!device->registers)
		return -ENOMEM;
	result = vshmem_memory_init(
		device, pci_resource_start(pci, MEMORY_BAR), pci_resource_len(pci, MEMORY_BAR));
	if (result)
		return result;
	result = set_up_interrupts(pci, device);
	if (result)
		return result;
	result = vshmem_publish(device, mode & 0666);
	if (result)
		return result;
	result = devm_add_action_or_reset(&pci->dev, withdraw, device);
	if (result)
		return result;
	pci_info(pci, "/dev/vshmem/%s: %llu MiB, %s\n", device->name, device->bytes >> 20,
		device->vectors ? "interrupts" : "no interrupts");
	return 0;
}

static const struct pci_device_id vshmem_ids[] = {
	{ PCI_DEVICE(PCI_VENDOR_ID_REDHAT_QUMRANET, 0x1110) }, {}
};
MODULE_DEVICE_TABLE(pci, vshmem_ids);

/* No power management: a device whose memory others use cannot be put to sleep. */
struct pci_driver vshmem_pci_driver = {
	.name = "vshmem",
	.id_table = vshmem_ids,
	.probe = vshmem_probe,
};

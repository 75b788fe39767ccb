// SPDX-License-Identifier: GPL-2.0
/* ivshmem devices as QEMU makes them: BAR 0 registers, BAR 1 MSI-X, BAR 2 memory. */
#include <linux/interrupt.h>
#include <linux/module.h>
#include <linux/pci.h>

#include "vshmem.h"

#define REGISTERS_BAR 0
#define MEMORY_BAR    2
/* Offset of the register that holds this machine's number. */
#define IV_POSITION 8

static ushort mode = 0600;
module_param(mode, ushort, 0444);
MODULE_PARM_DESC(mode, "mode of /dev/vshmem/NAME where no udev rule sets another (default 0600)");

static irqreturn_t notified(int irq, void *cookie)
{
	struct vshmem_device *device = cookie;

	atomic64_inc(&device->rings);
	wake_up_interruptible_all(&device->waiters);
	return IRQ_HANDLED;
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
	return 0;
free:
	while (i--)
		pci_free_irq(pci, i, device);
	pci_free_irq_vectors(pci);
	return result;
}

static void shut_interrupts(struct pci_dev *pci, struct vshmem_device *device)
{
	int i;

	if (!device->vectors)
		return;
	for (i = 0; i < device->vectors; i++)
		pci_free_irq(pci, i, device);
	pci_free_irq_vectors(pci);
	pci_clear_master(pci);
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

static int vshmem_probe(struct pci_dev *pci, const struct pci_device_id *id)
{
	struct vshmem_device *device;
	int result;

	result = pcim_enable_device(pci);
	if (result)
		return result;
	result = request_regions(pci);
	if (result)
		return result;
	device = vshmem_device_new(&pci->dev);
	if (!device)
		return -ENOMEM;
	device->registers = pcim_iomap(pci, REGISTERS_BAR, 0);
	if (!device->registers) {
		result = -ENOMEM;
		goto put;
	}
	result = vshmem_memory_init(
		device, pci_resource_start(pci, MEMORY_BAR), pci_resource_len(pci, MEMORY_BAR));
	if (result)
		goto put;
	result = set_up_interrupts(pci, device);
	if (result)
		goto put;
	result = vshmem_publish(device, mode & 0666);
	if (result)
		goto shut;
	pci_set_drvdata(pci, device);
	pci_info(pci, "/dev/vshmem/%s: %llu MiB, %s\n", device->name, device->bytes >> 20,
		device->vectors ? "interrupts" : "no interrupts");
	return 0;
shut:
	shut_interrupts(pci, device);
put:
	vshmem_device_put(device);
	return result;
}

static void vshmem_remove(struct pci_dev *pci)
{
	struct vshmem_device *device = pci_get_drvdata(pci);

	vshmem_withdraw(device);
	shut_interrupts(pci, device);
	vshmem_device_put(device);
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
	.remove = vshmem_remove,
};

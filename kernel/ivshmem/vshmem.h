/* SPDX-License-Identifier: GPL-2.0 */
#ifndef VSHMEM_H
#define VSHMEM_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/memremap.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/srcu.h>
#include <linux/wait.h>

#include "uapi/vshmem.h"

/* Ended processes that are remembered for readers that are late. */
#define VSHMEM_DEATHS_KEPT 1024
/* Registered processes of one device at most. */
#define VSHMEM_WATCHES 65536

/* Processes whose end is reported. */
struct vshmem_register {
	spinlock_t lock;  /* nests inside wait_pidfd.lock of a struct pid */
	struct list_head alive;
	struct list_head dead;  /* in the order of their ends */
	u32 watched;   /* on either list */
	u32 kept;   /* on the list of the dead */
	u64 ended;   /* ever */
};

/*
 * One device. Lives until devres has given up all of its parts and the last file is closed. After
 * an unplug `gone` is set, and nothing of the hardware is touched: who does holds `vshmem_srcu` and
 * looks first.
 */
struct vshmem_device {
	struct kref refs;
	struct list_head named;  /* in the list of names in use */
	struct device *parent;
	struct miscdevice misc;
	char name[64];
	char kobject_name[80];
	char node_name[80];
	bool gone;

	/* Memory */
	struct dev_pagemap pages;
	struct inode *inode;  /* whose mapping all users' mappings hang in */
	void *memory;
	phys_addr_t physical;
	u64 bytes;
	int references;  /* of a page that nobody uses */
	atomic64_t pages_mapped;  /* faults that were answered with a page, ever */
	atomic64_t huge_pages_mapped;

	/* Interrupts */
	void __iomem *registers;
	int vectors;   /* 0: the device has none */
	s32 peer;
	atomic64_t rings;
	wait_queue_head_t waiters;

	struct vshmem_register processes;
};

/* One open file. */
struct vshmem_file {
	struct vshmem_device *device;
	struct mutex lock;  /* of what follows */
	u64 rings_read;
	u64 deaths_read;
};

extern struct srcu_struct vshmem_srcu;

/* core.c */
int vshmem_publish(struct vshmem_device *device, umode_t mode);
void vshmem_withdraw(struct vshmem_device *device);
struct vshmem_device *vshmem_device_new(struct device *parent);
void vshmem_device_put(struct vshmem_device *device);

/* memory.c */
int vshmem_memory_init(struct vshmem_device *device, phys_addr_t start, u64 bytes);
void vshmem_memory_unmap(struct vshmem_device *device);
void vshmem_memory_wait_for_pages(struct vshmem_device *device);
void vshmem_memory_free(struct vshmem_device *device);
int vshmem_mmap(struct file *file, struct vm_area_struct *vma);
int vshmem_memory_setup(void);
void vshmem_memory_teardown(void);

/* deaths.c */
void vshmem_register_init(struct vshmem_register *processes);
void vshmem_register_free(struct vshmem_register *processes);
int vshmem_register_caller(struct vshmem_device *device);
long vshmem_tell_deaths(struct vshmem_file *opened, struct vshmem_deaths __user *argument);

/* pci.c */
extern struct pci_driver vshmem_pci_driver;

#endif

// SPDX-License-Identifier: GPL-2.0
/*
 * The device's memory: made known to the kernel as pages, and mapped into programs.
 *
 * The pages are those of a dax device, and so are the rules. They have a struct page each
 * (devm_memremap_pages), so that futex(2), direct I/O and process_vm_readv(2) work on them, and an
 * inode of our own as their mapping, because a shared futex is named by inode and index. Mapping
 * bare page frames in huge pages instead crashes kernels when a program calls futex(2) there.
 */
#include <linux/fs.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/pagemap.h>
#include <linux/pseudo_fs.h>
#include <linux/sched.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 15, 0)
#include <linux/pfn_t.h>
#endif

#include "vshmem.h"

#if !IS_ENABLED(CONFIG_ZONE_DEVICE) || !IS_ENABLED(CONFIG_FS_DAX)
#error "vshmem needs a kernel with CONFIG_ZONE_DEVICE and CONFIG_FS_DAX"
#endif

/* From 6.15 on mapped pages are counted, and those of a huge page are one folio. */
#define COUNTED_PAGES (LINUX_VERSION_CODE >= KERNEL_VERSION(6, 15, 0))

/* How many pages have a number of references of their own. */
#define STEP (COUNTED_PAGES ? HPAGE_PMD_NR : 1)

static struct vfsmount *vshmem_mount;

/* Nothing is ever written back. */
static const struct address_space_operations vshmem_mapping = {
	.dirty_folio = noop_dirty_folio,
};

static int vshmem_fs_init(struct fs_context *context)
{ return init_pseudo(context, 0x76736d65) ? 0 : -ENOMEM; }

/* No owner: its only mount is the module's own and ends with it. An owner would pin the module. */
static struct file_system_type vshmem_fs = {
	.name = "vshmem",
	.init_fs_context = vshmem_fs_init,
	.kill_sb = kill_anon_super,
};

int vshmem_memory_setup(void)
{
	vshmem_mount = kern_mount(&vshmem_fs);
	return PTR_ERR_OR_ZERO(vshmem_mount);
}

void vshmem_memory_teardown(void)
{
	kern_unmount(vshmem_mount);
	/* Inodes are freed after a grace period. */
	rcu_barrier();
}

int vshmem_memory_init(struct vshmem_device *device, phys_addr_t start, u64 bytes)
{
	struct dev_pagemap *pages = &device->pages;
	struct inode *inode;
	u64 index;
	void *memory;

	if (!bytes || !IS_ALIGNED(start | bytes, PMD_SIZE)) {
		dev_err(device->parent,
			"its memory (%llu bytes at %pa) is not made of 2 MiB pages; give it at least 2 MiB\n",
			bytes, &start);
		return -EINVAL;
	}
	inode = alloc_anon_inode(vshmem_mount->mnt_sb);
	if (IS_ERR(inode))
		return PTR_ERR(inode);
	/* Tells the kernel that faults come for huge pages as well. */
	inode->i_flags |= S_DAX;
	inode->i_mapping->a_ops = &vshmem_mapping;
	i_size_write(inode, bytes);
	device->inode = inode;

	pages->type = MEMORY_DEVICE_GENERIC;
	pages->range.start = start;
	pages->range.end = start + bytes - 1;
	pages->nr_range = 1;
#if COUNTED_PAGES
	pages->vmemmap_shift = HPAGE_PMD_ORDER;
#endif
	memory = devm_memremap_pages(device->parent, pages);
	if (IS_ERR(memory))
		return PTR_ERR(memory);
	for (index = 0; index < bytes >> PAGE_SHIFT; index += STEP) {
		struct folio *folio = page_folio(pfn_to_page((start >> PAGE_SHIFT) + index));

		folio->mapping = inode->i_mapping;
		folio->index = index;
	}
	device->memory = memory;
	device->physical = start;
	device->bytes = bytes;
	device->references = page_count(pfn_to_page(start >> PAGE_SHIFT));
	return 0;
}

/* Takes the memory away from every process that has it mapped. After `gone` is set and seen. */
void vshmem_memory_unmap(struct vshmem_device *device)
{ unmap_mapping_range(device->inode->i_mapping, 0, 0, 1); }

/*
 * Waits until no page is in use outside of mappings, which are gone: in a pipe (vmsplice), or by
 * direct I/O. memunmap_pages does not wait for pages of this type, and frees their structures.
 * Nobody is woken when such a page is given back.
 */
void vshmem_memory_wait_for_pages(struct vshmem_device *device)
{
	unsigned long first = device->physical >> PAGE_SHIFT;
	bool said = false;
	u64 index;

	for (index = 0; index < device->bytes >> PAGE_SHIFT; index += STEP) {
		while (page_count(pfn_to_page(first + index)) > device->references) {
			if (!said)
				dev_info(device->parent,
					"waits for pages of its memory that a process has in a pipe or in I/O: end that process\n");
			said = true;
			schedule_timeout_idle(HZ / 50);
		}
	}
}

void vshmem_memory_free(struct vshmem_device *device)
{
	if (device->inode)
		iput(device->inode);
}

#if !COUNTED_PAGES
static pfn_t device_pfn(unsigned long pfn) { return __pfn_to_pfn_t(pfn, PFN_DEV | PFN_MAP); }
#endif

static vm_fault_t insert_page(struct vm_fault *vmf, unsigned long pfn)
{
#if COUNTED_PAGES
	return vmf_insert_page_mkwrite(vmf, pfn_to_page(pfn), vmf->flags & FAULT_FLAG_WRITE);
#else
	return vmf_insert_mixed(vmf->vma, vmf->address, device_pfn(pfn));
#endif
}

static vm_fault_t vshmem_fault(struct vm_fault *vmf)
{
	struct vshmem_file *opened = vmf->vma->vm_file->private_data;
	struct vshmem_device *device = opened->device;
	vm_fault_t result = VM_FAULT_SIGBUS;
	int key = srcu_read_lock(&vshmem_srcu);

	if (!READ_ONCE(device->gone) && vmf->pgoff < device->bytes >> PAGE_SHIFT)
		result = insert_page(vmf, (device->physical >> PAGE_SHIFT) + vmf->pgoff);
	if (result == VM_FAULT_NOPAGE)
		atomic64_inc(&device->pages_mapped);
	srcu_read_unlock(&vshmem_srcu, key);
	return result;
}

static vm_fault_t insert_huge(struct vm_fault *vmf, unsigned long pfn)
{
#if COUNTED_PAGES
	return vmf_insert_folio_pmd(
		vmf, page_folio(pfn_to_page(pfn)), vmf->flags & FAULT_FLAG_WRITE);
#else
	return vmf_insert_pfn_pmd(vmf, device_pfn(pfn), vmf->flags & FAULT_FLAG_WRITE);
#endif
}

static vm_fault_t huge_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct vshmem_file *opened = vma->vm_file->private_data;
	struct vshmem_device *device = opened->device;
	unsigned long start = vmf->address & PMD_MASK;
	vm_fault_t result = VM_FAULT_FALLBACK;
	unsigned long first;
	int key;

	if (start < vma->vm_start || start + PMD_SIZE > vma->vm_end)
		return VM_FAULT_FALLBACK;
	first = linear_page_index(vma, start);
	/* The memory itself begins at a huge page. */
	if (!IS_ALIGNED(first, HPAGE_PMD_NR))
		return VM_FAULT_FALLBACK;
	key = srcu_read_lock(&vshmem_srcu);
	if (READ_ONCE(device->gone) || first + HPAGE_PMD_NR > device->bytes >> PAGE_SHIFT)
		result = VM_FAULT_SIGBUS;
	else
		result = insert_huge(vmf, (device->physical >> PAGE_SHIFT) + first);
	if (result == VM_FAULT_NOPAGE)
		atomic64_inc(&device->huge_pages_mapped);
	srcu_read_unlock(&vshmem_srcu, key);
	return result;
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0)
static vm_fault_t vshmem_huge_fault(struct vm_fault *vmf, unsigned int order)
{
	if (!order)
		return vshmem_fault(vmf);
	return order == HPAGE_PMD_ORDER ? huge_fault(vmf) : VM_FAULT_FALLBACK;
}
#else
static vm_fault_t vshmem_huge_fault(struct vm_fault *vmf, enum page_entry_size size)
{
	if (size == PE_SIZE_PTE)
		return vshmem_fault(vmf);
	return size == PE_SIZE_PMD ? huge_fault(vmf) : VM_FAULT_FALLBACK;
}
#endif

static const struct vm_operations_struct vshmem_vm = {
	.fault = vshmem_fault,
	.huge_fault = vshmem_huge_fault,
};

int vshmem_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct vshmem_file *opened = file->private_data;
	struct vshmem_device *device = opened->device;
	u64 pages = device->bytes >> PAGE_SHIFT;

	if (READ_ONCE(device->gone))
		return -ENODEV;
	/* A private copy would be no shared memory. */
	if (!(vma->vm_flags & VM_MAYSHARE))
		return -EINVAL;
	if (vma->vm_pgoff > pages || vma_pages(vma) > pages - vma->vm_pgoff)
		return -EINVAL;
	vma->vm_ops = &vshmem_vm;
	/* Not in core dumps: a pool is large, and others' too. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_set(vma, VM_HUGEPAGE | VM_DONTDUMP);
#else
	vma->vm_flags |= VM_HUGEPAGE | VM_DONTDUMP;
#endif
	return 0;
}

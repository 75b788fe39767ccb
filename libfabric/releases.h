/* What differs between the releases of libfabric's headers. */
#ifndef VSHMEM_FI_RELEASES_H
#define VSHMEM_FI_RELEASES_H

#include <stddef.h>
#include <stdint.h>

/* Of the interface before release 1.5. Libfabric 2 deprecates its own names for these. */
enum { VFI_MR_BASIC = 1 << 0, VFI_MR_SCALABLE = 1 << 1 };
#define VFI_ORDER_DATA (UINT64_C(1) << 16)

/* Not in the headers of libfabric 2. */
#ifndef container_of
#define container_of(member, type, name) ((type *)((char *)(member) - offsetof(type, name)))
#endif

#endif

/* What Open MPI 4.1 (BTL interface 3.1.0, coll modules 2.3.0) calls otherwise than 5.0 does. */
#include "opal_config.h"

#if OPAL_MAJOR_VERSION != 4 || OPAL_MINOR_VERSION != 1
#error "this file is for Open MPI 4.1"
#endif

#include "opal/mca/pmix/pmix.h"
#include "opal/threads/mutex.h"

/* Looks at the domains, with the job up to then silent about the rest, before those of all its
 * processes are found out: what they have published is here then. */
#define VSHMEM_LOOKS_BEFORE_ALL_ARE_KNOWN    5

#define PMIx_Initialized()                   (opal_pmix.put != NULL)
#define PMIX_GLOBAL                          OPAL_PMIX_GLOBAL
#define PMIX_JOB_SIZE                        OPAL_PMIX_JOB_SIZE
#define PMIX_UINT32                          OPAL_UINT32
#define MCA_COLL_BASE_VERSION_2_4_0          MCA_COLL_BASE_VERSION_2_0_0
#define MCA_MPOOL_BASE_VERSION_3_1_0         MCA_MPOOL_BASE_VERSION_3_0_0
#define MCA_BTL_FLAGS_RDMA_REMOTE_COMPLETION 0

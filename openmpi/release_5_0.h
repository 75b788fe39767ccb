/* Open MPI 5.0: BTL interface 3.3.0, coll modules 2.4.0. The other files are written for it. */
#include "opal_config.h"

#if OPAL_MAJOR_VERSION != 5 || OPAL_MINOR_VERSION != 0
#error "this file is for Open MPI 5.0"
#endif

#if !__has_include(MCA_threads_mutex_base_include_HEADER)
#undef MCA_threads_base_include_HEADER
#undef MCA_threads_mutex_base_include_HEADER
#undef MCA_threads_tsd_base_include_HEADER
#define MCA_threads_base_include_HEADER       "threads_5_0.h"
#define MCA_threads_mutex_base_include_HEADER "threads_5_0.h"
#define MCA_threads_tsd_base_include_HEADER   "threads_5_0.h"
#endif
#include "opal/mca/pmix/pmix-internal.h"
#include "opal/mca/threads/mutex.h"

/* What processes have published is asked for, so that is done while all live. */
#define VSHMEM_LOOKS_BEFORE_ALL_ARE_KNOWN 1

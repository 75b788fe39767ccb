/* What the files of the BTL share. */
#include "btl_vshmem.h"

struct vshmem_btl vshmem_btl;
struct vshmem_parameters vshmem_parameters;

/* Inside vshmem_btl_progress. */
static __thread bool progressing;

bool vshmem_makes_progress(void) { return progressing; }

void vshmem_set_progress(bool begun) { progressing = begun; }

/* What members of a communicator have published at the job's start. */
#include "coll_vshmem.h"

#include <stdlib.h>
#include <string.h>

#include "ompi/group/group.h"
#include "opal/class/opal_hash_table.h"
#include "opal/mca/btl/btl.h"
#include "opal/util/arch.h"

#include "btl_vshmem.h"

struct vshmem_coll_parameters vshmem_coll_parameters;

/* What a process tells the others. Who has other bounds would go another way. */
struct modex {
	uint32_t arch;
	int32_t priority, most_members, after;
	uint64_t most_bytes, piece_bytes;
};
static struct modex own;
/* Under its name it is published. */
static const mca_base_component_t *component;
/* The one whose modex tells the pool. */
static const mca_base_component_t btl = { MCA_BTL_DEFAULT_VERSION("vshmem") };
/* By name: its pool, as it has published it. */
static opal_hash_table_t known;
static opal_mutex_t lock = OPAL_MUTEX_STATIC_INIT;

bool vshmem_coll_modex_publish(const mca_base_component_t *name)
{
	const struct vshmem_coll_parameters *given = &vshmem_coll_parameters;
	own = (struct modex) { opal_local_arch, given->priority, given->most_members, given->after,
		given->most_bytes, given->piece_bytes };
	component = name;
	int rc;
	OPAL_MODEX_SEND(rc, PMIX_GLOBAL, component, &own, sizeof(own));
	return rc == OPAL_SUCCESS;
}

void vshmem_coll_modex_open(void)
{
	OBJ_CONSTRUCT(&known, opal_hash_table_t);
	opal_hash_table_init(&known, 64);
}

void vshmem_coll_modex_close(void) { OBJ_DESTRUCT(&known); }

/* The pool of a process that has this component with our parameters; NULL: it is none of ours. Kept
 * until the end. */
static const uint8_t *pool_of(const opal_process_name_t *name)
{
	static const uint8_t none;
	uint64_t key = (uint64_t)name->jobid << 32 | name->vpid;
	void *found = NULL;
	OPAL_THREAD_LOCK(&lock);
	int rc = opal_hash_table_get_value_uint64(&known, key, &found);
	OPAL_THREAD_UNLOCK(&lock);
	if (rc == OPAL_SUCCESS)
		return found == &none ? NULL : found;

	struct modex *modex = NULL;
	size_t bytes = 0;
	uint8_t *pool = NULL;
	struct vshmem_modex *address = vshmem_modex_there(&btl, name, &bytes);
	if (address && bytes == sizeof(*address)) {
		modex = vshmem_modex_there(component, name, &bytes);
		if (modex && bytes == sizeof(*modex) && memcmp(modex, &own, sizeof(own)) == 0)
			pool = malloc(sizeof(address->pool));
		if (pool)
			memcpy(pool, address->pool, sizeof(address->pool));
	}
	free(address);
	free(modex);
	OPAL_THREAD_LOCK(&lock);
	opal_hash_table_set_value_uint64(
		&known, key, pool ? (void *)pool : (void *)(uintptr_t)&none);
	OPAL_THREAD_UNLOCK(&lock);
	return pool;
}

bool vshmem_coll_all_share(struct ompi_group_t *group, uint8_t pool[16])
{
	for (int rank = 0; rank < ompi_group_size(group); rank++) {
		opal_process_name_t name = ompi_group_get_proc_name(group, rank);
		const uint8_t *found = pool_of(&name);
		if (!found || (rank > 0 && memcmp(found, pool, 16) != 0))
			return false;
		memcpy(pool, found, 16);
	}
	return true;
}

/* The mpool "vshmem": MPI_Alloc_mem, and windows that MPI allocates, from the pool. Where the pool
 * has no room Open MPI takes ordinary memory instead. */
#include "opal_config.h"

#include <stdlib.h>

#include "opal/mca/base/base.h"
#include "opal/mca/mpool/mpool.h"

#include "user.h"
#include "vshmem.h"

/* Above that of huge pages (50). */
#define PRIORITY 90

static opal_mutex_t lock = OPAL_MUTEX_STATIC_INIT;
static vshmem_pool *pool;
static bool tried;
/* Pools that were left. What was taken from them is private memory of this process. */
static struct earlier {
	struct earlier *next;
	vshmem_pool *pool;
} *earlier;

static void parting(void) { OPAL_THREAD_LOCK(&lock); }

static void left(void)
{
	struct earlier *one = pool ? malloc(sizeof(*one)) : NULL;
	if (one) {
		*one = (struct earlier) { earlier, pool };
		earlier = one;
	}
	pool = NULL;
	OPAL_THREAD_UNLOCK(&lock);
}

static void joined(void) { tried = false; }

static struct vshmem_user user = { .parting = parting, .left = left, .joined = joined };

/* With the lock held. */
static void open_pool(void)
{
	if (tried)
		return;
	tried = true;
	/* mpirun passes parameters on in the environment. The BTL says what is wrong, if
	 * anything is. */
	if (vshmem_open(getenv("OMPI_MCA_btl_vshmem_pool"), &pool, NULL, 0) != 0)
		pool = NULL;
}

static void *take(mca_mpool_base_module_t *module, size_t size, size_t align, uint32_t flags)
{
	(void)module, (void)flags;
	void *memory = NULL;
	OPAL_THREAD_LOCK(&lock);
	vshmem_user_enter(&user);
	open_pool();
	/* Memory of a pool begins on a page. */
	if (!pool || align > 4096 || !size || vshmem_hold(pool, size, &memory) != 0)
		memory = NULL;
	OPAL_THREAD_UNLOCK(&lock);
	return memory;
}

static void give_back(mca_mpool_base_module_t *module, void *memory)
{
	(void)module;
	OPAL_THREAD_LOCK(&lock);
	bool found = pool && vshmem_release(pool, memory) == 0;
	for (struct earlier *one = earlier; one && !found; one = one->next)
		found = vshmem_release(one->pool, memory) == 0;
	OPAL_THREAD_UNLOCK(&lock);
}

static void finalize(mca_mpool_base_module_t *module) { (void)module; }

static int query(const char *hints, int *priority, mca_mpool_base_module_t **found);
static int close_component(void);

OPAL_DECLSPEC extern mca_mpool_base_component_t mca_mpool_vshmem_component;
mca_mpool_base_component_t mca_mpool_vshmem_component = {
	.mpool_version = {
		MCA_MPOOL_BASE_VERSION_3_1_0,
		.mca_component_name = "vshmem",
		MCA_BASE_MAKE_VERSION(component, OPAL_MAJOR_VERSION, OPAL_MINOR_VERSION,
			OPAL_RELEASE_VERSION),
		.mca_close_component = close_component,
	},
	.mpool_data = { .param_field = MCA_BASE_METADATA_PARAM_CHECKPOINT },
	.mpool_query = query,
};

static mca_mpool_base_module_t module = {
	.mpool_component = &mca_mpool_vshmem_component,
	.mpool_alloc = take,
	.mpool_free = give_back,
	.mpool_finalize = finalize,
	.flags = MCA_MPOOL_FLAGS_MPI_ALLOC_MEM,
	.mpool_allocation_unit = 4096,
};

static int query(const char *hints, int *priority, mca_mpool_base_module_t **found)
{
	(void)hints;
	OPAL_THREAD_LOCK(&lock);
	open_pool();
	bool open = pool != NULL;
	OPAL_THREAD_UNLOCK(&lock);
	if (!open)
		return OPAL_ERR_NOT_AVAILABLE;
	*priority = PRIORITY;
	*found = &module;
	return OPAL_SUCCESS;
}

static int close_component(void)
{
	if (pool)
		vshmem_close(pool);
	pool = NULL;
	for (struct earlier *one = earlier; one; one = earlier) {
		earlier = one->next;
		vshmem_close(one->pool);
		free(one);
	}
	return OPAL_SUCCESS;
}

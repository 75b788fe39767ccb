/* What libfabric's core calls when it loads the provider. */
#include "regions.h"
#include "vshmem_fi.h"

static void cleanup(void) { vfi_close_pool(); }

/* A thread that does not exist in the child may have held any of the locks. */
static void forked(void)
{
	vfi_pool_forked();
	vfi_attached_forked();
	vfi_offers_forked();
	vfi_waits_forked();
}

struct fi_provider vfi_provider = {
	.version = FI_VERSION(1, 0),
	.name = "vshmem",
	.getinfo = vfi_getinfo,
	.fabric = vfi_fabric_open,
	.cleanup = cleanup,
};

FI_EXT_INI
{
	/* The core takes providers of its own version, older or newer, and skips others when a
	 * program asks for more. Only what all have since 1.17 is used. */
	if (!vfi_core_find(__builtin_return_address(0)))
		return NULL;
	vfi_provider.fi_version = vfi_core.version();
	vfi_read_parameters();
	static bool watches;
	if (!watches)
		watches = pthread_atfork(NULL, NULL, forked) == 0;
	return &vfi_provider;
}

/* What the BTL calls of Open MPI, whatever its release. */
#include "btl_vshmem.h"

#include <stdarg.h>
#include <stdio.h>

#include "opal/util/proc.h"

static mca_btl_base_module_error_cb_fn_t failed;

bool vshmem_alone(void) { return opal_process_info.num_local_peers == 0; }

int vshmem_register_error(
	struct mca_btl_base_module_t *btl, mca_btl_base_module_error_cb_fn_t callback)
{
	(void)btl;
	failed = callback;
	return OPAL_SUCCESS;
}

void vshmem_abort(const char *format, ...)
{
	static char text[512];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	vshmem_say("%s", text);
	if (failed)
		failed(&vshmem_btl.super, MCA_BTL_ERROR_FLAGS_FATAL, NULL, text);
}

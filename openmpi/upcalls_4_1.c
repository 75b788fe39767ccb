/* What the BTL calls of Open MPI 4.1. */
#include "btl_vshmem.h"

#include <stdarg.h>
#include <stdio.h>

#include "opal/util/proc.h"

static mca_btl_base_module_error_cb_fn_t failed;

bool vshmem_alone(void) { return opal_process_info.num_local_peers == 0; }

void vshmem_hand_up(mca_btl_base_tag_t tag, const void *text, uint32_t bytes)
{
	/* Tags come from peers. */
	if (tag >= MCA_BTL_TAG_MAX)
		return;
	const mca_btl_active_message_callback_t *callback = mca_btl_base_active_message_trigger
	        + tag;
	if (!callback->cbfunc)
		return;
	mca_btl_base_segment_t segment = { .seg_len = bytes };
	segment.seg_addr.pval = (void *)(uintptr_t)text;
	mca_btl_base_descriptor_t descriptor = { .des_segments = &segment, .des_segment_count = 1 };
	callback->cbfunc(&vshmem_btl.super, tag, &descriptor, callback->cbdata);
}

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

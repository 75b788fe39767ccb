/* What the BTL calls of Open MPI 4.1. */
#include "btl_vshmem.h"

void vshmem_hand_up(const mca_btl_active_message_callback_t *callback, mca_btl_base_tag_t tag,
	const void *text, uint32_t bytes)
{
	mca_btl_base_segment_t segment = { .seg_len = bytes };
	segment.seg_addr.pval = (void *)(uintptr_t)text;
	mca_btl_base_descriptor_t descriptor = { .des_segments = &segment, .des_segment_count = 1 };
	callback->cbfunc(&vshmem_btl.super, tag, &descriptor, callback->cbdata);
}

/* What the BTL calls of Open MPI 5.0. */
#include "btl_vshmem.h"

void vshmem_hand_up(const mca_btl_active_message_callback_t *callback, mca_btl_base_tag_t tag,
	const void *text, uint32_t bytes)
{
	const mca_btl_base_segment_t segment = { .seg_addr.pval = (void *)(uintptr_t)text,
		.seg_len = bytes };
	const mca_btl_base_receive_descriptor_t descriptor = { .des_segments = &segment,
		.des_segment_count = 1,
		.tag = tag,
		.cbdata = callback->cbdata };
	callback->cbfunc(&vshmem_btl.super, &descriptor);
}

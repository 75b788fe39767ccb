/* What the BTL calls of Open MPI 4.1. */
#include "btl_vshmem.h"

#include <stdlib.h>
#include <string.h>

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

void *vshmem_modex_here(
	const mca_base_component_t *component, const opal_process_name_t *name, size_t *bytes)
{
	void *found = NULL;
	opal_value_t flag, *value = NULL;
	opal_list_t how;
	char *key = mca_base_component_to_string(component);
	OBJ_CONSTRUCT(&how, opal_list_t);
	OBJ_CONSTRUCT(&flag, opal_value_t);
	flag.key = strdup(OPAL_PMIX_IMMEDIATE);
	flag.type = OPAL_BOOL;
	flag.data.flag = true;
	opal_list_append(&how, &flag.super);
	int rc = key ? opal_pmix.get(name, key, &how, &value) : OPAL_ERR_OUT_OF_RESOURCE;
	if (rc == OPAL_SUCCESS && value) {
		found = value->data.bo.bytes;
		*bytes = value->data.bo.size;
		value->data.bo.bytes = NULL;
		OBJ_RELEASE(value);
	}
	opal_list_remove_first(&how);
	OBJ_DESTRUCT(&flag);
	OBJ_DESTRUCT(&how);
	free(key);
	return found;
}

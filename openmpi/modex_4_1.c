/* How processes learn what others have published, in Open MPI 4.1. */
#include "btl_vshmem.h"

#include <stdlib.h>
#include <string.h>

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

void *vshmem_modex_there(
	const mca_base_component_t *component, const opal_process_name_t *name, size_t *bytes)
{
	void *found = NULL;
	int rc;
	OPAL_MODEX_RECV(rc, component, name, &found, bytes);
	return rc == OPAL_SUCCESS ? found : NULL;
}

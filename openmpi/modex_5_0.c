/* How processes learn what others have published, in Open MPI 5.0. */
#include "btl_vshmem.h"

#include <stdlib.h>

/* Without a directive PMIx waits until the process publishes it. */
static void *get(const mca_base_component_t *component, const opal_process_name_t *name,
	const char *directive, size_t *bytes)
{
	void *found = NULL;
	char *key = mca_base_component_to_string(component);
	pmix_info_t how;
	pmix_proc_t process;
	pmix_value_t *value = NULL;
	OPAL_PMIX_CONVERT_NAME(&process, name);
	PMIX_INFO_LOAD(&how, directive, NULL, PMIX_BOOL);
	if (key && PMIx_Get(&process, key, &how, 1, &value) == PMIX_SUCCESS && value
	        && value->type == PMIX_BYTE_OBJECT) {
		found = value->data.bo.bytes;
		*bytes = value->data.bo.size;
		value->data.bo.bytes = NULL;
	}
	if (value)
		PMIX_VALUE_RELEASE(value);
	PMIX_INFO_DESTRUCT(&how);
	free(key);
	return found;
}

void *vshmem_modex_there(
	const mca_base_component_t *component, const opal_process_name_t *name, size_t *bytes)
{
	void *found = get(component, name, PMIX_IMMEDIATE, bytes);
	return found ? found : get(component, name, PMIX_GET_REFRESH_CACHE, bytes);
}

void *vshmem_modex_here(
	const mca_base_component_t *component, const opal_process_name_t *name, size_t *bytes)
{ return vshmem_modex_there(component, name, bytes); }

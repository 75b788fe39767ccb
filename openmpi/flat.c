/* Bytes without holes. */
#include "coll_vshmem.h"

#include <stdlib.h>

#include "opal/datatype/opal_convertor.h"

size_t vshmem_flat_bytes(struct ompi_datatype_t *type, int count)
{
	size_t size;
	ompi_datatype_type_size(type, &size);
	return size * (size_t)count;
}

static int copy(struct vshmem_flat *flat, bool into_buffer)
{
	struct iovec part = { flat->bytes, flat->packed };
	uint32_t parts = 1;
	size_t size = flat->packed;
	int rc;
	opal_convertor_t convertor;
	OBJ_CONSTRUCT(&convertor, opal_convertor_t);
	if (into_buffer) {
		opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor,
			&flat->type->super, flat->count, flat->data, 0, &convertor);
		rc = opal_convertor_unpack(&convertor, &part, &parts, &size);
	} else {
		opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor,
			&flat->type->super, flat->count, flat->data, 0, &convertor);
		rc = opal_convertor_pack(&convertor, &part, &parts, &size);
	}
	OBJ_DESTRUCT(&convertor);
	return rc < 0 ? MPI_ERR_INTERN : MPI_SUCCESS;
}

bool vshmem_flat_open(struct vshmem_flat *flat, const void *data, size_t count,
	struct ompi_datatype_t *type, bool filled)
{
	*flat = (struct vshmem_flat) { NULL, (void *)(uintptr_t)data, count, type, 0 };
	/* NULL is MPI_BOTTOM: the datatype has addresses. */
	if (data == MPI_IN_PLACE)
		return true;
	if (ompi_datatype_is_contiguous_memory_layout(type, (int32_t)count)) {
		ptrdiff_t first, extent;
		ompi_datatype_get_true_extent(type, &first, &extent);
		flat->bytes = (char *)((uintptr_t)flat->data + (uintptr_t)first);
		return true;
	}
	flat->packed = vshmem_flat_bytes(type, (int)count);
	flat->bytes = malloc(flat->packed);
	if (flat->bytes && (!filled || copy(flat, false) == MPI_SUCCESS))
		return true;
	vshmem_flat_close(flat, false);
	return false;
}

int vshmem_flat_close(struct vshmem_flat *flat, bool written)
{
	int rc = MPI_SUCCESS;
	if (flat->packed && written)
		rc = copy(flat, true);
	if (flat->packed)
		free(flat->bytes);
	flat->packed = 0;
	return rc;
}

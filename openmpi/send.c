/* Sending: fragments, and short messages without one.
 *
 * A fragment is complete when it is in the peer's ring: from then on its memory is the program's
 * again, whatever becomes of the peer. The callback is always called (a return of 1 instead makes
 * large sends of ob1 hang).
 */
#include "btl_vshmem.h"

#include <errno.h>
#include <string.h>

static void construct(vshmem_frag *frag)
{
	frag->base.des_segments = frag->segments;
	frag->base.des_segment_count = 1;
	frag->segments[0].seg_addr.pval = frag->buffer;
	frag->home = NULL;
}

OBJ_CLASS_INSTANCE(vshmem_frag, mca_btl_base_descriptor_t, construct, NULL);

static vshmem_frag *take(size_t size, uint8_t order, uint32_t flags)
{
	opal_free_list_t *home = size <= SMALL_BYTES         ? &vshmem_btl.small
		: size <= vshmem_btl.super.btl_eager_limit   ? &vshmem_btl.eager
		: size <= vshmem_btl.super.btl_max_send_size ? &vshmem_btl.large
							     : NULL;
	vshmem_frag *frag = home ? (vshmem_frag *)opal_free_list_get(home) : NULL;
	if (frag) {
		frag->home = home;
		frag->segments[0].seg_len = size;
		frag->base.des_segment_count = 1;
		frag->base.des_flags = flags;
		frag->base.order = order;
		frag->base.des_cbfunc = NULL;
	}
	return frag;
}

mca_btl_base_descriptor_t *vshmem_btl_alloc(struct mca_btl_base_module_t *btl,
	struct mca_btl_base_endpoint_t *endpoint, uint8_t order, size_t size, uint32_t flags)
{
	(void)btl, (void)endpoint;
	return (mca_btl_base_descriptor_t *)take(size, order, flags);
}

int vshmem_btl_free(struct mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *descriptor)
{
	(void)btl;
	vshmem_frag *frag = (vshmem_frag *)descriptor;
	opal_free_list_return(frag->home, &frag->base.super);
	return OPAL_SUCCESS;
}

mca_btl_base_descriptor_t *vshmem_btl_prepare_src(struct mca_btl_base_module_t *btl,
	struct mca_btl_base_endpoint_t *endpoint, struct opal_convertor_t *convertor, uint8_t order,
	size_t reserve, size_t *size, uint32_t flags)
{
	(void)btl, (void)endpoint;
	size_t most = vshmem_btl.super.btl_max_send_size - reserve;
	if (*size > most)
		*size = most;
	struct iovec part = { .iov_len = *size };
	uint32_t parts = 1;
	bool in_place = !opal_convertor_need_buffers(convertor) && reserve <= SMALL_BYTES;
	vshmem_frag *frag = take(in_place ? reserve : reserve + *size, order, flags);
	if (!frag)
		return NULL;
	/* Without an address the convertor says where contiguous data lies. */
	part.iov_base = in_place ? NULL : (char *)frag->buffer + reserve;
	if (opal_convertor_pack(convertor, &part, &parts, size) < 0) {
		vshmem_btl_free(btl, &frag->base);
		return NULL;
	}
	if (in_place) {
		frag->segments[1].seg_addr.pval = part.iov_base;
		frag->segments[1].seg_len = *size;
		frag->base.des_segment_count = 2;
	} else {
		frag->segments[0].seg_len = reserve + *size;
	}
	return &frag->base;
}

/* With the endpoint's lock held: puts a fragment into the ring, or its like. */
static int put(vshmem_endpoint *endpoint, const vshmem_frag *frag)
{
	struct iovec parts[2];
	for (size_t nth = 0; nth < frag->base.des_segment_count; nth++) {
		parts[nth].iov_base = frag->segments[nth].seg_addr.pval;
		parts[nth].iov_len = frag->segments[nth].seg_len;
	}
	return vshmem_endpoint_send(endpoint, parts, (int)frag->base.des_segment_count, frag->tag);
}

static void complete(vshmem_endpoint *endpoint, vshmem_frag *frag, int status)
{
	bool ours = frag->base.des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP;
	if (frag->base.des_cbfunc)
		frag->base.des_cbfunc(&vshmem_btl.super, endpoint, &frag->base, status);
	if (ours)
		vshmem_btl_free(&vshmem_btl.super, &frag->base);
}

int vshmem_btl_send(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
	mca_btl_base_descriptor_t *descriptor, mca_btl_base_tag_t tag)
{
	(void)btl;
	vshmem_frag *frag = (vshmem_frag *)descriptor;
	frag->tag = tag;
	OPAL_THREAD_LOCK(&endpoint->lock);
	int rc = opal_list_is_empty(&endpoint->waiting) ? put(endpoint, frag) : -EAGAIN;
	if (rc == -EAGAIN) {
		opal_list_append(&endpoint->waiting, (opal_list_item_t *)frag);
		OPAL_THREAD_ADD_FETCH32(&vshmem_btl.waiting, 1);
	}
	OPAL_THREAD_UNLOCK(&endpoint->lock);
	if (rc == 0)
		complete(endpoint, frag, OPAL_SUCCESS);
	return rc == 0 || rc == -EAGAIN ? OPAL_SUCCESS : OPAL_ERR_UNREACH;
}

int vshmem_send_waiting(vshmem_endpoint *endpoint)
{
	int done = 0;
	for (;;) {
		OPAL_THREAD_LOCK(&endpoint->lock);
		if (opal_list_is_empty(&endpoint->waiting)) {
			OPAL_THREAD_UNLOCK(&endpoint->lock);
			return done;
		}
		vshmem_frag *frag = (vshmem_frag *)opal_list_get_first(&endpoint->waiting);
		int rc = put(endpoint, frag);
		if (rc != -EAGAIN) {
			opal_list_remove_first(&endpoint->waiting);
			OPAL_THREAD_ADD_FETCH32(&vshmem_btl.waiting, -1);
		}
		OPAL_THREAD_UNLOCK(&endpoint->lock);
		if (rc == -EAGAIN)
			return done;
		complete(endpoint, frag, rc == 0 ? OPAL_SUCCESS : OPAL_ERR_UNREACH);
		done++;
	}
}

/* Data with holes: into the ring without them. */
static int pack(vshmem_endpoint *endpoint, struct opal_convertor_t *convertor, const void *header,
	size_t header_size, size_t payload_size, mca_btl_base_tag_t tag)
{
	void *room;
	int rc = vshmem_reserve(endpoint->peer.lane, (uint32_t)(header_size + payload_size), &room);
	if (rc != 0)
		return rc;
	memcpy(room, header, header_size);
	struct iovec part = { (char *)room + header_size, payload_size };
	uint32_t parts = 1;
	size_t packed = payload_size;
	opal_convertor_pack(convertor, &part, &parts, &packed);
	return vshmem_publish(endpoint->peer.lane, (uint32_t)(header_size + packed), tag);
}

int vshmem_btl_sendi(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
	struct opal_convertor_t *convertor, void *header, size_t header_size, size_t payload_size,
	uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
	mca_btl_base_descriptor_t **descriptor)
{
	size_t size = header_size + payload_size;
	bool in_place = payload_size == 0 || !opal_convertor_need_buffers(convertor);
	void *payload = NULL;
	if (payload_size && in_place)
		opal_convertor_get_current_pointer(convertor, &payload);
	int rc = -EAGAIN;
	OPAL_THREAD_LOCK(&endpoint->lock);
	/* What waits goes first. */
	bool by_lane = endpoint->pair.out == BY_LANE;
	if (opal_list_is_empty(&endpoint->waiting) && size <= vshmem_btl.super.btl_max_send_size
		&& OPAL_LIKELY(by_lane)) {
		if (in_place)
			rc = vshmem_post(endpoint->peer.lane, header, (uint32_t)header_size,
				payload, (uint32_t)payload_size, tag);
		else
			rc = pack(endpoint, convertor, header, header_size, payload_size, tag);
	}
	if (rc == 0)
		endpoint->pair.sent++;
	OPAL_THREAD_UNLOCK(&endpoint->lock);
	if (rc == 0)
		return OPAL_SUCCESS;
	/* Where there will be room in the lane soon, Open MPI tries again; else it is to send a
	 * fragment. */
	if (descriptor)
		*descriptor = by_lane ? NULL : vshmem_btl_alloc(btl, endpoint, order, size, flags);
	return OPAL_ERR_OUT_OF_RESOURCE;
}

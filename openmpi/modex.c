/* What processes of the job tell each other at its start. */
#include "btl_vshmem.h"

#include <stdlib.h>
#include <string.h>

#include "opal/util/proc.h"

/* Under its name all is published. */
static const mca_base_component_t *component;

uint32_t vshmem_modex_size(void)
{
	uint32_t size = 0, *found = &size;
	int rc;
	opal_process_name_t all = { OPAL_PROC_MY_NAME.jobid, OPAL_VPID_WILDCARD };
	OPAL_MODEX_RECV_VALUE_OPTIONAL(rc, PMIX_JOB_SIZE, &all, &found, PMIX_UINT32);
	if (rc != OPAL_SUCCESS || size == 0) {
		const char *word = getenv("OMPI_COMM_WORLD_SIZE");
		size = word ? (uint32_t)strtoul(word, NULL, 10) : 0;
	}
	return size ? size : 1;
}

bool vshmem_modex_publish(const mca_base_component_t *name)
{
	component = name;
	vshmem_btl.me.rank = OPAL_PROC_MY_NAME.vpid;
	int rc;
	OPAL_MODEX_SEND(rc, PMIX_GLOBAL, component, &vshmem_btl.modex,
		sizeof(vshmem_btl.modex));
	return rc == OPAL_SUCCESS;
}

/* Takes over what was published, in memory that is given back here. */
static bool is_ours(struct vshmem_modex *found, size_t bytes, struct vshmem_modex *modex)
{
	bool ours = found && bytes == sizeof(*found) && found->messages[0] == VSHMEM_MESSAGES
	        && memcmp(found->pool, vshmem_btl.modex.pool, sizeof(found->pool)) == 0;
	if (ours)
		*modex = *found;
	free(found);
	return ours;
}

bool vshmem_modex_of(const opal_process_name_t *name, struct vshmem_modex *modex)
{
	size_t bytes = 0;
	struct vshmem_modex *found = vshmem_modex_there(component, name, &bytes);
	return is_ours(found, bytes, modex);
}

bool vshmem_modex_known(uint32_t rank, struct vshmem_modex *modex)
{
	opal_process_name_t name = { OPAL_PROC_MY_NAME.jobid, rank };
	size_t bytes = 0;
	if (rank >= vshmem_btl.processes)
		return false;
	if (rank == OPAL_PROC_MY_NAME.vpid) {
		*modex = vshmem_btl.modex;
		return true;
	}
	struct vshmem_modex *found = vshmem_modex_here(component, &name, &bytes);
	return is_ours(found, bytes, modex);
}

void vshmem_btl_tell_once(const char *why)
{
	if (!vshmem_btl.warned)
		vshmem_say(
			"a peer cannot be reached through the pool, and goes over the network: %s",
			why);
	vshmem_btl.warned = true;
}

/* Both ends of a pair must come to the same answer, or ob1 uses a way back that the other end does
 * not have (and crashes). So it is made of what both know alike: their modex, and their ranks. */
bool vshmem_is_peer(const opal_process_name_t *name, const struct vshmem_modex *modex)
{
	const opal_process_name_t *me = &OPAL_PROC_MY_NAME;
	const struct vshmem_modex *own = &vshmem_btl.modex;
	uint32_t job = vshmem_btl.processes;
	/* A port has a lane for each process of its job, and none for those of jobs that come
	 * later. */
	if (name->jobid != me->jobid || name->vpid >= job)
		return false;
	if (modex->port.most_bytes < own->max_send_size
		|| own->port.most_bytes < modex->max_send_size) {
		vshmem_btl_tell_once(
			"its lanes are not as long as ours: give all processes the same btl_vshmem parameters");
		return false;
	}
	/* A pair takes two of the pool's attaches. Where there are not enough for all, each process
	 * has the same number of peers: those that are nearest by rank. */
	uint32_t apart = name->vpid > me->vpid ? name->vpid - me->vpid : me->vpid - name->vpid;
	apart = apart < job - apart ? apart : job - apart;
	if ((uint64_t)apart * 2 > vshmem_btl.attaches / 4 * 3 / job) {
		vshmem_btl_tell_once(
			"the pool's table of attaches is too small for all pairs: make the pool with a larger --limit attaches=N");
		return false;
	}
	return true;
}

/* Other components of this process that use the pool: they leave it, and join it, with the BTL.
 *
 * They find it among Open MPI's. All of them are of one build.
 */
#ifndef VSHMEM_USER_H
#define VSHMEM_USER_H

#include <stdbool.h>
#include <string.h>

#include "opal_config.h"

#include "opal/mca/btl/base/base.h"

struct vshmem_user {
	struct vshmem_user *next;
	bool entered;
	/* Why this process cannot leave the pool now, as a sentence's end; NULL: it can. */
	const char *(*refuses)(void);
	/* Called again and again while a process leaves, LEAVING: this one. True: what it has of
	 * the pool is given back, but for memory that is the program's. */
	bool (*leave)(bool leaving);
	/* Its memory is made private now: it makes no call for the pool until it has left it. */
	void (*parting)(void);
	/* That memory is private: its handle of the pool gives nothing any more. */
	void (*left)(void);
	/* The pool can be opened again. */
	void (*joined)(void);
};

/* Enters one, once. */
static inline void vshmem_user_enter(struct vshmem_user *user)
{
	mca_btl_base_selected_module_t *item;
	/* Before MPI_Init has chosen transports there are none. */
	if (user->entered || !mca_btl_base_modules_initialized.opal_list_sentinel.opal_list_next)
		return;
	OPAL_LIST_FOREACH(item, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t)
	{
		mca_btl_base_module_t *btl = item->btl_module;
		if (strcmp(btl->btl_component->btl_version.mca_component_name, "vshmem") != 0)
			continue;
		/* Behind what every module begins with (struct vshmem_btl). */
		struct vshmem_user **first = (struct vshmem_user **)(btl + 1);
		user->next = *first;
		user->entered = true;
		*first = user;
		return;
	}
}

#endif

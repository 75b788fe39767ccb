/* Parameters that are numbers. Open MPI takes a word that is none for 0 and says nothing; these say
 * so and keep their default. Sizes may end in k, m or g. */
#ifndef VSHMEM_PARAMETERS_H
#define VSHMEM_PARAMETERS_H

#include "opal_config.h"

#include <stddef.h>
#include <stdint.h>

#include "opal/mca/mca.h"

struct vshmem_parameter {
	const char *name, *help;
	int64_t least, most;
	int64_t value; /* the default, until it is read */
	char *word;
	char text[24];
};

/* Registers them for a component whose parameters begin with PREFIX, and reads them. */
void vshmem_numbers(const mca_base_component_t *component, const char *prefix,
	struct vshmem_parameter *numbers, size_t count);

#endif

#include "parameters.h"

#include <inttypes.h>
#include <stdio.h>

#include "opal/mca/base/mca_base_var.h"

#include "../transport/number.h"
#include "log.h"

void vshmem_numbers(const mca_base_component_t *component, const char *prefix,
	struct vshmem_parameter *numbers, size_t count)
{
	for (struct vshmem_parameter *row = numbers; row < numbers + count; row++) {
		int64_t value;
		snprintf(row->text, sizeof(row->text), "%" PRId64, row->value);
		row->word = row->text;
		mca_base_component_var_register(component, row->name, row->help,
			MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0, OPAL_INFO_LVL_5,
			MCA_BASE_VAR_SCOPE_READONLY, &row->word);
		const char *word = row->word ? row->word : "";
		if (vshmem_parse_number(word, &value) && value >= row->least
		        && value <= row->most) {
			row->value = value;
			continue;
		}
		vshmem_say("%s_%s=%s: not a number from %" PRId64 " to %" PRId64
			   "; it is taken to be %" PRId64 ". Give one, as in --mca %s_%s %" PRId64,
			prefix, row->name, word, row->least, row->most, row->value, prefix,
			row->name, row->value);
	}
}

/* Numbers that users write. */
#ifndef VSHMEM_TRANSPORT_NUMBER_H
#define VSHMEM_TRANSPORT_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Whether a word is a number, perhaps with the letter of a power of 1024 (k, m, g). */
bool vshmem_parse_number(const char *word, int64_t *value);

#endif

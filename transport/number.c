#include "number.h"

#include <errno.h>
#include <stdlib.h>

bool vshmem_parse_number(const char *word, int64_t *value)
{
	static const char letters[] = "kmg";
	char *end;
	errno = 0;
	long long number = strtoll(word, &end, 0);
	if (end == word || errno != 0)
		return false;
	for (int power = 0; *end && power < 3; power++) {
		if ((*end | 0x20) != letters[power])
			continue;
		if (__builtin_mul_overflow(number, 1LL << 10 * (power + 1), &number))
			return false;
		end++;
		break;
	}
	*value = number;
	return *end == '\0';
}

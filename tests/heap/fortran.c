#include "heap.h"

int is_in_pool(const void *memory) { return in_pool(memory); }

#include "gemm.h"

#include "dwarf.h"

/* A block of B is copied so that the innermost loop reads it from end to end: DEPTH rows of it,
 * STRIP bytes wide at a time, which stay in the second cache while all rows of A go by; TALL rows
 * of A share what is read. */
enum { STRIP = 64, TALL = 6, DEPTH = 256, WIDE = 64 * STRIP };

size_t gemm_room(void) { return (size_t)DEPTH * WIDE; }

#define REAL       float
#define NAME(what) what##_single
#include "gemm_real.h"
#undef REAL
#undef NAME

#define REAL       double
#define NAME(what) what##_double
#include "gemm_real.h"

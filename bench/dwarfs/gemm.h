/* C = A B, by rows, with nothing but a compiler. Matrices are row by row. */
#ifndef GEMM_H
#define GEMM_H

#include <stddef.h>

/* A has `rows` rows of n, B is n by n, and C has `rows` rows of n. Room has gemm_room() bytes, on a
 * cache line. */
void gemm_single(long rows, long n, const float *a, const float *b, float *c, void *room);
void gemm_double(long rows, long n, const double *a, const double *b, double *c, void *room);
size_t gemm_room(void);

#endif

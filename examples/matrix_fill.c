/* Fills a shared matrix by a formula, lets matrix_check read it, then removes it. */
#include "matrix.h"

int main(int argc, char **argv)
{
	struct matrix_choice c = choose(
		argc, argv, "Fills a matrix in a shared segment for matrix_check.");
	int set;
	uint64_t *matrix = open_matrix("matrix_fill", &c, 0, 1 << FILLED | 1 << CHECKED, &set);

	for (size_t row = 0; row < c.rows; row++)
		for (size_t column = 0; column < c.columns; column++)
			matrix[row * c.columns + column] = element(c.seed, row, column);
	printf("matrix_fill: %zu x %zu filled with seed %llu\n", c.rows, c.columns,
		(unsigned long long)c.seed);
	step(set, FILLED, +1);
	step(set, CHECKED, -1);

	if (shmdt(matrix) != 0)
		fail("shmdt of the matrix");
	if (shmctl(segment_in_use, IPC_RMID, NULL) != 0)
		fail("removal of the matrix");
	if (semctl(set, 0, IPC_RMID) != 0)
		fail("removal of the matrix's semaphore set");
	printf("matrix_fill: checked by the other side, removed\n");
	return 0;
}

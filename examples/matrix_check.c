/* Compares a shared matrix byte by byte with the formula that matrix_fill used. */
#include "matrix.h"

int main(int argc, char **argv)
{
	struct matrix_choice c = choose(
		argc, argv, "Checks the matrix that matrix_fill fills, byte by byte.");
	int set;
	const uint64_t *matrix = open_matrix("matrix_check", &c, SHM_RDONLY, 1 << CHECKED, &set);

	step(set, FILLED, -1);
	uint64_t sum = 1469598103934665603u; /* FNV-1a over the bytes as read */
	size_t different = 0;
	for (size_t row = 0; row < c.rows; row++) {
		for (size_t column = 0; column < c.columns; column++) {
			uint64_t expected = element(c.seed, row, column);
			const unsigned char *want = (const unsigned char *)&expected;
			const unsigned char *got =
				(const unsigned char *)&matrix[row * c.columns + column];
			for (size_t i = 0; i < sizeof expected; i++) {
				unsigned char byte = got[i];
				sum = (sum ^ byte) * 1099511628211u;
				if (byte != want[i] && different++ == 0)
					printf("matrix_check: first difference at row %zu, column %zu, byte %zu: "
					       "expected %02x, got %02x\n",
						row, column, i, want[i], byte);
			}
		}
	}
	if (shmdt(matrix) != 0)
		fail("shmdt of the matrix");
	/* Last use of the set: matrix_fill removes it when this arrives. */
	step(set, CHECKED, +1);
	printf("matrix_check: %zu x %zu, checksum %016llx, %zu bytes differ\n", c.rows, c.columns,
		(unsigned long long)sum, different);
	return different != 0;
}

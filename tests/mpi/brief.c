/* As little as a job can do: each rank hears of each. */
#include "pattern.h"

int main(int argc, char **argv)
{
	begin(&argc, &argv, MPI_THREAD_SINGLE);
	int sum, one = 1;
	MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	must(sum == ranks, "sum");
	passed("brief");
	return end();
}

/* Data of every layout, put into a window, fetched and accumulated: it lies where the layouts say.
 * On windows of MPI_Win_allocate, and of MPI_Win_create over MPI_Alloc_mem's memory. */
#include <stdint.h>
#include <string.h>

#include "pattern.h"

enum { BYTES = 4096 };
static const char *kind;

/* Layouts of some 32-bit numbers. */
enum { LAYOUTS = 8 };
static MPI_Datatype layout(int which, int *count)
{
	MPI_Datatype type, other;
	const int lengths[] = { 3, 1, 2, 6 }, places[] = { 20, 2, 9, 0 }, sizes[] = { 6, 8 },
		  parts[] = { 3, 4 }, starts[] = { 1, 2 };
	*count = 1;
	switch (which) {
	case 1: MPI_Type_vector(4, 3, 5, MPI_INT32_T, &type); break;
	/* Backwards. */
	case 2: MPI_Type_create_hvector(12, 1, -8, MPI_INT32_T, &other);
		const MPI_Aint shift = 100;
		MPI_Type_create_hindexed_block(1, 1, &shift, other, &type);
		MPI_Type_free(&other);
		break;
	case 3: MPI_Type_indexed(4, lengths, places, MPI_INT32_T, &type); break;
	case 4: MPI_Type_create_subarray(
			2, sizes, parts, starts, MPI_ORDER_C, MPI_INT32_T, &type);
		break;
	case 5: MPI_Type_create_resized(MPI_INT32_T, 0, 12, &type); *count = 12; break;
	case 6: MPI_Type_contiguous(4, MPI_INT32_T, &type); *count = 3; break;
	case 7: MPI_Type_vector(2, 1, 2, MPI_INT32_T, &other);
		MPI_Type_create_resized(other, -4, 20, &type);
		MPI_Type_free(&other);
		*count = 6;
		break;
	default: *count = 12; return MPI_INT32_T;
	}
	MPI_Type_commit(&type);
	return type;
}

/* A target's bytes of this process. */
enum { PART = 448 };
static MPI_Aint part_of(void) { return 512 + rank * PART; }
static int same(MPI_Win win, int target, const void *image)
{
	char found[PART];
	MPI_Win_flush(target, win);
	MPI_Get(found, PART, MPI_BYTE, target, part_of(), PART, MPI_BYTE, win);
	MPI_Win_flush_local(target, win);
	return memcmp(found, image, PART) == 0;
}

/* What was put, fetched and accumulated lies where the layouts say: as a message of a process to
 * itself would lay it. */
static void layouts(MPI_Win win)
{
	enum { ROOM = 512 };
	int32_t from[ROOM], image[ROOM], found[ROOM], sum[ROOM];
	MPI_Win_lock_all(0, win);
	for (int nth = 0; nth < LAYOUTS * LAYOUTS; nth++) {
		int count, there_count, target = nth % ranks;
		MPI_Datatype type = layout(nth / LAYOUTS, &count),
			     there = layout(nth % LAYOUTS, &there_count);
		MPI_Aint part = part_of();
		must(part + PART <= BYTES, "too many processes");
		for (int word = 0; word < ROOM; word++) {
			from[word] = nth * 1000 + word;
			image[word] = sum[word] = found[word] = -word;
		}
		MPI_Put(image, PART, MPI_BYTE, target, part, PART, MPI_BYTE, win);
		MPI_Win_flush(target, win);
		MPI_Put(from, count, type, target, part, there_count, there, win);
		MPI_Win_flush_all(win);
		MPI_Sendrecv(from, count, type, 0, 0, image, there_count, there, 0, 0,
			MPI_COMM_SELF, MPI_STATUS_IGNORE);
		must(same(win, target, image), "%s: put of layout %d to %d", kind, nth / LAYOUTS,
			nth % LAYOUTS);
		MPI_Get(sum, count, type, target, part, there_count, there, win);
		MPI_Win_flush_local_all(win);
		MPI_Sendrecv(image, there_count, there, 0, 0, found, count, type, 0, 0,
			MPI_COMM_SELF, MPI_STATUS_IGNORE);
		must(memcmp(found, sum, sizeof(sum)) == 0, "%s: get of layout %d from %d", kind,
			nth / LAYOUTS, nth % LAYOUTS);
		/* Twice the number that is there. */
		MPI_Accumulate(from, count, type, target, part, there_count, there, MPI_SUM, win);
		for (int word = 0; word < ROOM; word++)
			from[word] *= 2;
		MPI_Sendrecv(from, count, type, 0, 0, image, there_count, there, 0, 0,
			MPI_COMM_SELF, MPI_STATUS_IGNORE);
		must(same(win, target, image), "%s: accumulate of layout %d to %d", kind,
			nth / LAYOUTS, nth % LAYOUTS);
		if (nth / LAYOUTS)
			MPI_Type_free(&type);
		if (nth % LAYOUTS)
			MPI_Type_free(&there);
	}
	MPI_Win_unlock_all(win);
	passed("layouts");
}

int main(int argc, char **argv)
{
	begin(&argc, &argv, MPI_THREAD_SINGLE);
	for (int allocate = 1; allocate >= 0; allocate--) {
		char *base;
		MPI_Win win;
		kind = allocate ? "allocated" : "created in the pool";
		if (allocate)
			MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
		else
			MPI_Win_create(base = room(BYTES, 1), BYTES, 1, MPI_INFO_NULL,
				MPI_COMM_WORLD, &win);
		layouts(win);
		MPI_Win_free(&win);
		if (!allocate)
			no_room(base, 1);
	}
	return end();
}

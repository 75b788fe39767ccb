/* Half of the picture of examples/python/picture.py, or the picture as a PPM file:
 *   picture half 0|1
 *   picture show FILE.ppm
 * Each in a virtual machine of its own, together with the other program as you like. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vshmem.h>

enum { WIDTH = 240, HEIGHT = 160, MOST = 60 };

struct picture {
	uint32_t width, height;
	_Atomic uint32_t done[2];
	uint8_t points[WIDTH * HEIGHT];
};

static int fail(const char *what, int result)
{
	fprintf(stderr, "picture: %s: %s\n", what, strerror(-result));
	return 1;
}

/* How soon a point of the plane leaves the Mandelbrot set. */
static int steps(double x, double y)
{
	double real = 0, imaginary = 0;
	for (int count = 0; count < MOST; count++) {
		if (real * real + imaginary * imaginary > 4)
			return count;
		double next = real * real - imaginary * imaginary + x;
		imaginary = 2 * real * imaginary + y;
		real = next;
	}
	return MOST;
}

static int compute(struct picture *picture, int half)
{
	picture->width = WIDTH;
	picture->height = HEIGHT;
	for (int row = half * HEIGHT / 2; row < (half + 1) * HEIGHT / 2; row++)
		for (int column = 0; column < WIDTH; column++) {
			double x = (column - WIDTH * 0.7) * 3.0 / WIDTH;
			double y = (row - HEIGHT / 2.0) * 2.4 / HEIGHT;
			int shade = 255 - 255 * steps(x, y) / MOST;
			picture->points[row * WIDTH + column] = (uint8_t)shade;
		}
	atomic_store(&picture->done[half], 1);
	printf("half %d is done\n", half);
	return 0;
}

static int show(vshmem_pool *pool, struct picture *picture, const char *path)
{
	while (!atomic_load(&picture->done[0]) || !atomic_load(&picture->done[1]))
		usleep(10000);
	FILE *file = fopen(path, "wb");
	if (!file)
		return fail(path, -errno);
	fprintf(file, "P5\n%d %d\n255\n", WIDTH, HEIGHT);
	fwrite(picture->points, 1, sizeof picture->points, file);
	fclose(file);
	printf("%s is written\n", path);
	return vshmem_shm_unlink(pool, "picture") < 0;
}

int main(int count, char **words)
{
	if (count != 3 || (strcmp(words[1], "half") != 0 && strcmp(words[1], "show") != 0)) {
		fprintf(stderr, "usage: picture half 0|1, or picture show FILE.ppm\n");
		return 2;
	}
	char message[512];
	vshmem_pool *pool;
	if (vshmem_open(NULL, &pool, message, sizeof message) < 0) {
		fprintf(stderr, "picture: %s\n", message);
		return 1;
	}
	struct picture *picture;
	/* The process that comes first makes it. */
	int id = vshmem_shm_open(pool, "picture", O_CREAT | O_RDWR, 0600, sizeof *picture);
	if (id < 0)
		return fail("cannot open the object", id);
	int result = vshmem_attach(pool, id, sizeof *picture, (void **)&picture);
	if (result < 0)
		return fail("cannot attach it", result);
	if (strcmp(words[1], "half") == 0)
		result = compute(picture, words[2][0] == '1');
	else
		result = show(pool, picture, words[2]);
	vshmem_release(pool, picture);
	vshmem_shm_close(pool, id);
	vshmem_close(pool);
	return result;
}

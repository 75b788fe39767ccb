/* fopen(3) and mkstemp(3) below /dev/shm. */
#include "posix_path.h"

CASE(posix_path_fopen_modes)
{
	static const char *modes[] = { "r", "r+", "w", "w+", "a", "a+", "rb", "wx", "re", "z", "" };
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
		const char *path = fresh_path();
		FILE *stream = fopen(path, modes[i]);
		say("%s, missing: %s", modes[i], made(stream == NULL ? -1 : 0));
		if (stream)
			fclose(stream);
		unlink(path);
		close(file_at(path, "12345"));
		stream = fopen(path, modes[i]);
		say("%s, there: %s", modes[i], made(stream == NULL ? -1 : 0));
		if (stream) {
			say("flags %o", fcntl(fileno(stream), F_GETFL) & (O_ACCMODE | O_APPEND));
			say("%s", fputs("X", stream) >= 0 && fflush(stream) == 0 ? "written" : "not written");
			fclose(stream);
		}
		say("%s", content(path));
		unlink(path);
	}
}

CASE(posix_path_stream_reads_lines)
{
	FILE *stream = fopen(path_of_file("one\ntwo\nthree"), "r");
	char line[20];
	while (fgets(line, sizeof line, stream))
		say("%s, at %ld", strtok(line, "\n"), ftell(stream));
	say("end %d error %d", feof(stream) != 0, ferror(stream) != 0);
	rewind(stream);
	say("%c", fgetc(stream));
	say("%s", got(fseek(stream, -2, SEEK_END)));
	say("%c", fgetc(stream));
	say("%s", got(fclose(stream)));
}

CASE(posix_path_stream_writes)
{
	const char *path = fresh_path();
	FILE *stream = fopen(path, "w+");
	say("%d", fprintf(stream, "%d bottles", 99));
	say_path("before the flush", path);
	say("%s", got(fflush(stream)));
	say_path("after it", path);
	say("%s", got(fseek(stream, 3, SEEK_SET)));
	say("%c", fgetc(stream));
	say("%s", got(fseek(stream, 0, SEEK_SET)));
	say("%d", fputc('0', stream));
	say("%s", got(fclose(stream)));
	say("%s", content(path));
}

CASE(posix_path_stream_tells_its_descriptor)
{
	FILE *stream = fopen(path_of_file("hello"), "r");
	char text[6] = "";
	say("%s", yes(fileno(stream) > 2));
	say_state("stream", fileno(stream));
	ssize_t bytes = pread(fileno(stream), text, 5, 0);
	say("%s %s", got(bytes), text);
	int file = fileno(stream);
	say("%s", got(fclose(stream)));
	say("then %s", got(fcntl(file, F_GETFD)));
}

CASE(posix_path_stream_of_a_descriptor)
{
	FILE *stream = fdopen(file_at(fresh_path(), "hello"), "r+");
	char text[6] = "";
	say("%s", yes(fileno(stream) > 2));
	size_t bytes = fread(text, 1, 5, stream);
	say("%zu %s", bytes, text);
	say("%s", got(fclose(stream)));
}

CASE(posix_path_stream_without_permission)
{
	const char *path = path_of_file("x");
	chmod(path, 0);
	if (geteuid() == 0)
		skip("root may");
	say("%s", made(fopen(path, "r") == NULL ? -1 : 0));
}

CASE(posix_path_large_stream)
{
	const char *path = fresh_path();
	FILE *stream = fopen(path, "w");
	for (int i = 0; i < 20000; i++)
		fprintf(stream, "%07d\n", i);
	say("%s", got(fclose(stream)));
	say_path("written", path);
	stream = fopen(path, "r");
	int number, sum = 0;
	while (fscanf(stream, "%d", &number) == 1)
		sum += number;
	say("%d", sum);
	fclose(stream);
}

CASE(posix_path_mkstemp)
{
	char path[] = "/dev/shm/probe-XXXXXX";
	int file = mkstemp(path);
	say("%s %s", made(file), yes(strcmp(path, "/dev/shm/probe-XXXXXX") != 0));
	say("%s", got(write(file, "hello", 5)));
	say_path("made", path);
	say("%s %d", content(path), fcntl(file, F_GETFD));
	say("%s", got(unlink(path)));
}

CASE(posix_path_mkstemp_kin)
{
	char one[] = "/dev/shm/probe-XXXXXX", two[] = "/dev/shm/probe-XXXXXX.txt";
	char three[] = "/dev/shm/probe-XXXXXX.c";
	say("%d", fcntl(mkostemp(one, O_CLOEXEC), F_GETFD));
	say("%s %s", made(mkstemps(two, 4)), two + strlen(two) - 4);
	say("%o", fcntl(mkostemps(three, 2, O_APPEND), F_GETFL) & (O_ACCMODE | O_APPEND));
	say("%s %s %s", got(unlink(one)), got(unlink(two)), got(unlink(three)));
}

CASE(posix_path_mkstemp_wrong)
{
	char none[] = "/dev/shm/probe", few[] = "/dev/shm/probe-XXXXX", below[] = "/dev/shm/none/XXXXXX";
	char early[] = "/dev/shm/probe-XXXXXX.txt";
	say("%s", made(mkstemp(none)));
	say("%s", made(mkstemp(few)));
	say("%s", made(mkstemp(below)));
	say("%s", made(mkstemp(early)));
	say("%s", made(mkstemps(early, 5)));
}

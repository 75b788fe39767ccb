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
			say("%s",
				fputs("X", stream) >= 0 && fflush(stream) == 0 ? "written"
									       : "not written");
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
	char none[] = "/dev/shm/probe", few[] = "/dev/shm/probe-XXXXX",
	     below[] = "/dev/shm/none/XXXXXX";
	char early[] = "/dev/shm/probe-XXXXXX.txt";
	say("%s", made(mkstemp(none)));
	say("%s", made(mkstemp(few)));
	say("%s", made(mkstemp(below)));
	say("%s", made(mkstemp(early)));
	say("%s", made(mkstemps(early, 5)));
}

/* Runs in a child whose standard output, its number 1, is the role's to set. */
static const char *printed(void (*role)(const char *path))
{
	const char *path = path_of_file("");
	pid_t child = fork();
	if (child == 0) {
		role(path);
		printf("number %d\n", 1);
		exit(0);
	}
	say("%s", ended(finish(child)));
	return content(path);
}

static void by_dup2(const char *path) { dup2(open(path, O_WRONLY), 1); }
static void by_number(const char *path)
{
	close(1);
	open(path, O_WRONLY);
}
static void by_freopen(const char *path)
{
	if (freopen(path, "w", stdout) != stdout)
		_exit(9);
}
static void there_and_back(const char *path)
{
	int before = dup(1);
	dup2(open(path, O_WRONLY), 1);
	printf("in the object\n");
	fflush(stdout);
	dup2(before, 1);
	fclose(stdout);
	exit(0);
}

CASE(posix_path_standard_output)
{
	say("dup2: %s", printed(by_dup2));
	say("close and open: %s", printed(by_number));
	say("freopen: %s", printed(by_freopen));
	say("there and back: %s", printed(there_and_back));
}

CASE(posix_path_standard_streams_of_a_program)
{
	const char *path = path_of_file("3\n1\n2\n"), *sorted = path_of_file("");
	pid_t child = fork();
	if (child == 0) {
		dup2(open(path, O_RDONLY), 0);
		dup2(open(sorted, O_WRONLY), 1);
		execlp("sort", "sort", NULL);
		_exit(9);
	}
	say("%s", ended(finish(child)));
	say("%s", content(sorted));
}

CASE(posix_path_standard_error)
{
	const char *path = path_of_file("");
	pid_t child = fork();
	if (child == 0) {
		dup2(open(path, O_WRONLY), 2);
		fprintf(stderr, "at once");
		_exit(0);
	}
	say("%s", ended(finish(child)));
	say("%s", content(path));
}

CASE(posix_path_standard_input)
{
	const char *path = path_of_file("7 lines");
	pid_t child = fork();
	if (child == 0) {
		int number = 0;
		if (freopen(path, "r", stdin) != stdin || scanf("%d", &number) != 1)
			_exit(1);
		_exit(number == 7 && getchar() == ' ' ? 0 : 2);
	}
	say("%s", ended(finish(child)));
}

/* Calls that are looked up at run time (dlsym(3), dlvsym(3)), as bindings of interpreters do, are
 * on the same objects as those that the program is linked with. */
#include "posix_shm.h"

#include <dlfcn.h>

typedef int get_fn(key_t, size_t, int);
typedef int open_fn(const char *, int, mode_t);

static void say_get(const char *where, void *found, key_t key, int segment)
{
	get_fn *get = (get_fn *)found;
	say("%s: %s", where, !get ? "not found" : yes(get(key, PAGE, 0) == segment));
}

CASE(lookup_of_shmget)
{
	key_t key = fresh_key();
	int segment = track_segment(shmget(key, PAGE, IPC_CREAT | 0600));
	void *library = dlopen("libc.so.6", RTLD_LAZY);
	say_get("in libc", dlsym(library, "shmget"), key, segment);
	void *found = dlvsym(library, "shmget", "GLIBC_2.2.5");
	say_get("by its version", found ? found : dlvsym(library, "shmget", "GLIBC_2.17"), key, segment);
	say_get("in the program", dlsym(dlopen(NULL, RTLD_LAZY), "shmget"), key, segment);
	say_get("anywhere", dlsym(RTLD_DEFAULT, "shmget"), key, segment);
	say_get("behind the program", dlsym(RTLD_NEXT, "shmget"), key, segment);
	say("the same function: %s", yes(dlsym(library, "shmget") == dlsym(RTLD_DEFAULT, "shmget")));
	say("the function it calls: %s", yes(dlsym(RTLD_NEXT, "shmget") == (void *)shmget));
}

/* A library of which libc is a part, as it is of every other. */
CASE(lookup_in_other_libraries)
{
	key_t key = fresh_key();
	int segment = track_segment(shmget(key, PAGE, IPC_CREAT | 0600));
	for (const char *const *name = (const char *const[]){ "libm.so.6", "librt.so.1",
				"libpthread.so.0", "libdl.so.2", NULL };
		*name; name++) {
		void *library = dlopen(*name, RTLD_LAZY);
		say_get(*name, library ? dlsym(library, "shmget") : NULL, key, segment);
	}
}

CASE(lookup_of_shm_open)
{
	const char *name = fresh_name();
	int file = object_named(name, PAGE);
	if (pwrite(file, "here", 4, 0) != 4)
		broken("pwrite");
	for (const char *const *library = (const char *const[]){ "libc.so.6", "librt.so.1", NULL };
		*library; library++) {
		void *found = dlsym(dlopen(*library, RTLD_LAZY), "shm_open");
		int again = found ? ((open_fn *)found)(name, O_RDONLY, 0) : -1;
		char text[5] = "";
		say("%s: %s, %s", *library, made(again), pread(again, text, 4, 0) == 4 ? text : "nothing");
	}
}

CASE(lookup_of_what_is_not_there)
{
	void *library = dlopen("libc.so.6", RTLD_LAZY);
	void *found = dlsym(library, "no_function_has_this_name");
	const char *why = dlerror();
	say("a name: %s, said why: %s", yes(found), yes(why));
	found = dlvsym(library, "shmget", "GLIBC_0.1");
	why = dlerror();
	say("a version: %s, said why: %s", yes(found), yes(why));
	found = dlsym(library, "shmget");
	why = dlerror();
	say("what is there: %s, said why: %s", yes(found), yes(why));
}

CASE(lookup_of_an_older_version)
{
	void *library = dlopen("libc.so.6", RTLD_LAZY);
	void *old = dlvsym(library, "pthread_cond_wait", "GLIBC_2.2.5");
	void *newer = dlvsym(library, "pthread_cond_wait", "GLIBC_2.3.2");
	say("one function: %s", yes(old != NULL && old == newer));
	say("today's is the newer: %s", yes(!newer || dlsym(library, "pthread_cond_wait") == newer));
}

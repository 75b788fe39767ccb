/* sem_init(3), sem_post(3), sem_trywait(3), sem_getvalue(3), sem_destroy(3): semaphores in a
 * segment, without sleep. */
#include "locks.h"

CASE(posix_sem_init_values)
{
	struct page *p = new_page();
	const unsigned values[] = { 0, 1, 2, 77, 32767, 65536, SEM_VALUE_MAX };
	for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
		int r = sem_init(&p->sem, 1, values[i]);
		const char *word = got(r);
		say("%u: %s, value %d", values[i], word, sem_value(&p->sem));
	}
}

CASE(posix_sem_init_too_large)
{
	struct page *p = sem_page(5);
	say("SEM_VALUE_MAX + 1: %s", got(sem_init(&p->sem, 1, (unsigned)SEM_VALUE_MAX + 1)));
	say("UINT_MAX: %s", got(sem_init(&p->sem, 1, UINT_MAX)));
	say("value still %d", sem_value(&p->sem));
}

CASE(posix_sem_init_again)
{
	struct page *p = sem_page(5);
	say("destroy: %s", got(sem_destroy(&p->sem)));
	tell("init", sem_init(&p->sem, 1, 2), &p->sem);
	tell("init without destroy", sem_init(&p->sem, 1, 9), &p->sem);
}

CASE(posix_sem_init_of_one_process)
{
	struct page *p = new_page();
	say("init: %s", got(sem_init(&p->sem, 0, 1)));
	say("wait: %s", got(sem_wait(&p->sem)));
	say("trywait: %s", got(sem_trywait(&p->sem)));
	tell("post", sem_post(&p->sem), &p->sem);
}

CASE(posix_sem_init_outside_of_segments)
{
	sem_t *s = (sem_t *)shared_ints();
	say("init: %s", got(sem_init(s, 1, 1)));
	say("wait: %s", got(sem_wait(s)));
	say("trywait: %s", got(sem_trywait(s)));
	tell("post", sem_post(s), s);
	say("destroy: %s", got(sem_destroy(s)));
}

CASE(posix_sem_takes_one)
{
	struct page *p = sem_page(3);
	for (int i = 0; i < 4; i++)
		tell("trywait", sem_trywait(&p->sem), &p->sem);
}

CASE(posix_sem_wait_takes_one)
{
	struct page *p = sem_page(2);
	tell("wait", sem_wait(&p->sem), &p->sem);
	tell("wait", sem_wait(&p->sem), &p->sem);
}

CASE(posix_sem_post_adds_one)
{
	struct page *p = sem_page(0);
	for (int i = 0; i < 3; i++)
		tell("post", sem_post(&p->sem), &p->sem);
}

CASE(posix_sem_post_overflow)
{
	struct page *p = sem_page(SEM_VALUE_MAX - 1);
	say("post: %s", got(sem_post(&p->sem)));
	say("post: %s", got(sem_post(&p->sem)));
	say("value is SEM_VALUE_MAX: %s", yes(sem_value(&p->sem) == SEM_VALUE_MAX));
	say("trywait: %s", got(sem_trywait(&p->sem)));
	say("post: %s", got(sem_post(&p->sem)));
}

CASE(posix_sem_errno_is_left_alone)
{
	struct page *p = sem_page(1);
	errno = 0;
	sem_wait(&p->sem);
	sem_post(&p->sem);
	sem_trywait(&p->sem);
	sem_value(&p->sem);
	say("errno after success: %d", errno);
}

static void post_twice(void *context)
{
	struct page *p = context;
	say("child sees %d", sem_value(&p->sem));
	say("child posts: %s, %s", got(sem_post(&p->sem)), got(sem_post(&p->sem)));
}

CASE(posix_sem_of_a_child)
{
	struct page *p = sem_page(4);
	finish(start(post_twice, p));
	say("value %d", sem_value(&p->sem));
}

CASE(posix_sem_at_two_addresses)
{
	int segment = segment_of(4096);
	struct page *a = (struct page *)attach(segment), *b = (struct page *)attach(segment);
	say("init: %s", got(sem_init(&a->sem, 1, 1)));
	say("wait at the other: %s", got(sem_wait(&b->sem)));
	say("trywait here: %s", got(sem_trywait(&a->sem)));
	say("post at the other: %s", got(sem_post(&b->sem)));
	say("value here %d", sem_value(&a->sem));
}

CASE(posix_sem_many_in_a_segment)
{
	enum { MANY = 1000 };
	sem_t *sems = (sem_t *)attach(segment_of(MANY * sizeof(sem_t)));
	bool right = true;
	for (unsigned i = 0; i < MANY; i++)
		right = right && sem_init(&sems[i], 1, i) == 0;
	for (unsigned i = 0; i < MANY; i++)
		right = right && sem_value(&sems[i]) == (int)i && sem_post(&sems[i]) == 0;
	for (unsigned i = 0; i < MANY; i++)
		right = right && sem_value(&sems[i]) == (int)i + 1;
	say("each has its own value: %s", yes(right));
}

CASE(posix_sem_lives_in_its_segment)
{
	int segment = segment_of(4096);
	struct page *p = (struct page *)attach(segment);
	sem_init(&p->sem, 1, 6);
	shmdt(p);
	p = (struct page *)attach(segment);
	tell("attached again: trywait", sem_trywait(&p->sem), &p->sem);
}

CASE(posix_sem_in_what_was_used_before)
{
	/* Memory that something else was in: init makes nothing of what it finds. */
	struct page *p = new_page();
	memset(p, 0xff, sizeof *p);
	tell("init", sem_init(&p->sem, 1, 1), &p->sem);
	tell("wait", sem_wait(&p->sem), &p->sem);
	tell("trywait", sem_trywait(&p->sem), &p->sem);
	sem_destroy(&p->sem);
	memset(p, 0, sizeof *p);
	tell("init", sem_init(&p->sem, 1, 1), &p->sem);
}

enum { TURNS = 2000, WORKERS = 3 };

static void count_under(void *context)
{
	struct page *p = context;
	for (int i = 0; i < turns(TURNS); i++) {
		if (sem_wait(&p->sem) != 0)
			broken("sem_wait");
		p->words[0] = p->words[0] + 1;
		if (sem_post(&p->sem) != 0)
			broken("sem_post");
	}
}

CASE(posix_sem_as_a_lock)
{
	struct page *p = sem_page(1);
	pid_t children[WORKERS];
	for (int i = 0; i < WORKERS; i++)
		children[i] = start(count_under, p);
	for (int i = 0; i < WORKERS; i++)
		finish(children[i]);
	say("counted %d of %d, value %d", p->words[0], turns(TURNS) * WORKERS, sem_value(&p->sem));
}

static void *count_in_thread(void *context)
{
	count_under(context);
	return NULL;
}

CASE(posix_sem_as_a_lock_of_threads)
{
	struct page *p = sem_page(1);
	pthread_t t[WORKERS];
	for (int i = 0; i < WORKERS; i++)
		pthread_create(&t[i], NULL, count_in_thread, p);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(t[i], NULL);
	say("counted %d of %d, value %d", p->words[0], turns(TURNS) * WORKERS, sem_value(&p->sem));
}

static void consume(void *context)
{
	struct page *p = context;
	for (int i = 0; i < 500; i++) {
		sem_wait(&p->sem);
		p->words[1] += p->words[0];
		sem_post(&p->go);
	}
}

CASE(posix_sem_hands_things_over)
{
	struct page *p = sem_page(0);
	sem_init(&p->go, 1, 1);
	pid_t child = start(consume, p);
	for (int i = 0; i < 500; i++) {
		sem_wait(&p->go);
		p->words[0] = i;
		sem_post(&p->sem);
	}
	finish(child);
	say("sum %d", p->words[1]);
}

static sem_t *of_handler;
static void post_it(int signal)
{
	(void)signal;
	sem_post(of_handler);
}

CASE(posix_sem_post_in_a_handler)
{
	struct page *p = sem_page(0);
	of_handler = &p->sem;
	handle(SIGUSR1, post_it, 0);
	for (int i = 0; i < 10; i++)
		raise(SIGUSR1);
	say("value %d", sem_value(&p->sem));
}

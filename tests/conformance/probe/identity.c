/* Credentials that change in mid-process, and for whom. sysvipc(7), credentials(7),
 * capabilities(7). */
#include "case.h"

#include <grp.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sys/syscall.h>

enum { PAGE = 4096, CAP_OWNER = 15, CAP_LOCK = 14, CAP_ADMIN = 21, CAP_RESOURCE = 24 };

static const char *try_attach(int segment)
{
	char *at = shmat(segment, NULL, 0);
	const char *how = made((long)at);
	if (at != (void *)-1)
		shmdt(at);
	return how;
}

static void need_root(void)
{
	if (geteuid() != 0)
		skip("needs root");
}

static void change_users(void *context)
{
	int a = *(int *)context;
	say("root: %s", try_attach(a));
	if (setresuid(-1, NOBODY, -1) != 0)
		broken("setresuid");
	say("setresuid to another: %s", try_attach(a));
	if (setreuid(-1, 0) != 0)
		broken("setreuid");
	say("setreuid back: %s", try_attach(a));
	if (seteuid(NOBODY) != 0)
		broken("seteuid");
	say("seteuid to another: %s", try_attach(a));
	if (syscall(SYS_setresuid, -1, 0, -1) != 0)
		broken("setresuid by number");
	say("setresuid by number back: %s", try_attach(a));
	if (syscall(SYS_setuid, NOBODY) != 0)
		broken("setuid by number");
	say("setuid by number: %s", try_attach(a));
}

CASE(identity_of_the_user)
{
	need_root();
	int a = segment_of(PAGE);
	finish(start(change_users, &a));
}

static void change_groups(void *context)
{
	int a = *(int *)context;
	gid_t many[3] = { 7001, 5000, 7002 };
	if (setgroups(0, NULL) != 0 || setresgid(7000, 7000, 7000) != 0)
		broken("groups");
	/* CAP_SETGID is to stay: only the owner's right to everything goes. */
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2] = { { 0, 0, 0 }, { 0, 0, 0 } };
	data[0].effective = data[0].permitted = 1u << 6; /* CAP_SETGID */
	if (syscall(SYS_setresuid, 4321, 4321, 0) != 0 || seteuid(0) != 0
	        || syscall(SYS_capset, &header, data) != 0)
		broken("capset");
	if (syscall(SYS_setresuid, -1, 0, -1) != 0)
		broken("staying root without rights");
	say("not a member: %s", try_attach(a));
	if (setgroups(3, many) != 0)
		broken("setgroups");
	say("after setgroups: %s", try_attach(a));
	if (setgroups(0, NULL) != 0)
		broken("setgroups");
	say("after setgroups to none: %s", try_attach(a));
	if (setegid(5000) != 0)
		broken("setegid");
	say("after setegid: %s", try_attach(a));
	if (setresgid(-1, 7000, -1) != 0)
		broken("setresgid");
	say("after setresgid: %s", try_attach(a));
	if (syscall(SYS_setgroups, 3, many) != 0)
		broken("setgroups by number");
	say("after setgroups by number: %s", try_attach(a));
}

static void made_by_another(void *context)
{
	int *id = context;
	if (setgid(5000) != 0 || setuid(4322) != 0)
		broken("becoming another user");
	*id = track_segment(shmget(IPC_PRIVATE, PAGE, 0660));
}

CASE(identity_of_the_group)
{
	need_root();
	int *id = (int *)shared_ints();
	finish(start(made_by_another, id));
	finish(start(change_groups, id));
}

static void drop(unsigned capability)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2];
	if (syscall(SYS_capget, &header, data) != 0)
		broken("capget");
	data[0].effective &= ~(1u << capability);
	if (syscall(SYS_capset, &header, data) != 0)
		broken("capset");
}

extern int capset(void *header, const void *data);

static void drop_by_name(unsigned capability)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2];
	if (syscall(SYS_capget, &header, data) != 0)
		broken("capget");
	data[0].effective &= ~(1u << capability);
	if (capset(&header, data) != 0)
		broken("capset");
}

struct belongings {
	int segment, set, queue;
};

static void make_as_nobody(void *context)
{
	struct belongings *b = context;
	b->segment = track_segment(shmget(IPC_PRIVATE, PAGE, 0600));
	b->set = track_set(semget(IPC_PRIVATE, 1, 0600));
	b->queue = track_queue(msgget(IPC_PRIVATE, 0600));
}

static void give_up_capabilities(void *context)
{
	struct belongings *b = context;
	struct msqid_ds ds = queue_state(b->queue);
	say("with all: %s, IPC_SET %s", try_attach(b->segment),
		got(msgctl(b->queue, IPC_SET, &ds)));
	drop(CAP_RESOURCE);
	ds.msg_qbytes *= 2;
	say("without CAP_SYS_RESOURCE, msg_qbytes doubled: %s",
		got(msgctl(b->queue, IPC_SET, &ds)));
	ds.msg_qbytes /= 2;
	say("as it was: %s", got(msgctl(b->queue, IPC_SET, &ds)));
	drop_by_name(CAP_ADMIN);
	say("without CAP_SYS_ADMIN, IPC_SET: %s", got(msgctl(b->queue, IPC_SET, &ds)));
	say("IPC_RMID: %s %s %s", got(shmctl(b->segment, IPC_RMID, NULL)),
		got(semctl(b->set, 0, IPC_RMID)), got(msgctl(b->queue, IPC_RMID, NULL)));
	say("and yet attach: %s, semop %s", try_attach(b->segment), got(step(b->set, 0, 1, 0)));
	drop(CAP_OWNER);
	say("without CAP_IPC_OWNER: %s, semop %s, msgsnd %s", try_attach(b->segment),
		got(step(b->set, 0, 1, 0)), got(put(b->queue, 1, "x", 0)));
}

CASE(identity_of_capabilities)
{
	need_root();
	struct belongings *b = (void *)shared_ints();
	as_nobody(make_as_nobody, b);
	finish(start(give_up_capabilities, b));
}

struct worker {
	int segment;
	const char *text;
	char buffer[48];
};

static void *other_in_a_thread(void *context)
{
	struct worker *w = context;
	/* By number: this thread alone. */
	if (syscall(SYS_setresuid, -1, NOBODY, -1) != 0)
		broken("setresuid by number");
	snprintf(w->buffer, sizeof w->buffer, "%s", try_attach(w->segment));
	return NULL;
}

static void *root_in_a_thread(void *context)
{
	struct worker *w = context;
	snprintf(w->buffer, sizeof w->buffer, "%s", try_attach(w->segment));
	return NULL;
}

static void users_by_thread(void *context)
{
	struct worker w = { .segment = *(int *)context };
	pthread_t t;
	say("before: %s", try_attach(w.segment));
	pthread_create(&t, NULL, other_in_a_thread, &w);
	pthread_join(t, NULL);
	say("in a thread that has become another: %s", w.buffer);
	say("in the first thread meanwhile: %s", try_attach(w.segment));
	if (syscall(SYS_setresuid, -1, NOBODY, -1) != 0)
		broken("setresuid by number");
	say("in the first thread as another: %s", try_attach(w.segment));
	pthread_create(&t, NULL, root_in_a_thread, &w);
	pthread_join(t, NULL);
	say("in a thread that it makes then: %s", w.buffer);
}

CASE(identity_by_thread)
{
	need_root();
	int a = segment_of(PAGE);
	finish(start(users_by_thread, &a));
}

/* ---- rights that are taken from a waiter ---- */

static volatile int *outcome;

static void wait_to_receive(void *context)
{
	struct message m;
	*outcome = take(*(int *)context, &m, 100, 0, 0) == -1 ? errno : 0;
}

static void wait_to_send(void *context)
{ *outcome = put(*(int *)context, 1, "0123456789", 0) == -1 ? errno : 0; }

static void take_rights_from(role_fn *role)
{
	need_root();
	outcome = shared_ints();
	int q = track_queue(msgget(IPC_PRIVATE, 0606));
	struct msqid_ds ds = queue_state(q);
	if (role == wait_to_send) {
		ds.msg_qbytes = 5;
		msgctl(q, IPC_SET, &ds);
	}
	pid_t child = fork();
	if (child == 0) {
		if (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
			broken("becoming another user");
		role(&q);
		_exit(0);
	}
	await_asleep(child);
	ds.msg_perm.mode = 0600;
	ds.msg_qbytes = 100;
	say("mode to 0600: %s", got(msgctl(q, IPC_SET, &ds)));
	finish(child);
	say("the waiter: %s", errno_name(*outcome));
}

CASE(identity_rights_taken_from_a_receiver) { take_rights_from(wait_to_receive); }
CASE(identity_rights_taken_from_a_sender) { take_rights_from(wait_to_send); }

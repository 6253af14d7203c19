// build: gcc
// oracle: linux
//
// The files that say who is killed when there is no memory.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *names[] = {"oom_score_adj", "oom_adj"};

static void show(const char *what)
{
	printf("%s:", what);
	for (int n = 0; n < 2; n++) {
		char path[64], text[32] = "";
		snprintf(path, sizeof path, "/proc/self/%s", names[n]);
		int fd = open(path, O_RDONLY);
		ssize_t bytes = read(fd, text, sizeof text - 1);
		if (bytes > 0 && text[bytes - 1] == '\n')
			text[bytes - 1] = 0;
		printf(" %s", text);
		close(fd);
	}
	printf("\n");
	fflush(stdout);
}

static void set(int which, const char *text)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/self/%s", names[which]);
	int fd = open(path, O_RDWR);
	ssize_t bytes = write(fd, text, strlen(text));
	printf("%s = \"", names[which]);
	for (const char *c = text; *c; c++)
		*c == '\n' ? printf("\\n") : printf("%c", *c);
	printf("\": %zd %s\n", bytes, bytes < 0 ? strerrorname_np(errno) : "");
	fflush(stdout);
	close(fd);
}

static int score(void)
{
	FILE *f = fopen("/proc/self/oom_score", "r");
	int value = -1;
	fscanf(f, "%d", &value);
	fclose(f);
	return value;
}

int main(void)
{
	// Whoever has this may make less of it at any time.
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct caps[2];
	syscall(SYS_capget, &header, caps);
	caps[0].effective &= ~(1u << CAP_SYS_RESOURCE);
	caps[0].permitted &= ~(1u << CAP_SYS_RESOURCE);
	syscall(SYS_capset, &header, caps);
	for (int n = 0; n < 3; n++) {
		static const char *all[] = {"oom_score_adj", "oom_adj", "oom_score"};
		char path[64];
		struct stat stat_;
		snprintf(path, sizeof path, "/proc/self/%s", all[n]);
		stat(path, &stat_);
		printf("%s %o\n", all[n], stat_.st_mode);
	}
	set(0, "0");
	show("zero");
	set(0, "500\n");
	show("set");
	set(0, "  -17  ");
	show("spaces");
	set(0, "1001");
	set(0, "-1001");
	set(0, "100000");
	set(0, "ten");
	set(0, "1 2");
	show("as before");
	set(1, "15");
	show("coarse");
	set(1, "16");
	set(1, "-18");
	set(1, "3");
	show("coarse");
	set(1, "-17");
	show("never");
	set(0, "1000");
	printf("score in range: %d\n", score() >= 1300 && score() <= 2000);
	set(0, "300");
	if (fork() == 0) {
		show("child");
		set(0, "200");
		setuid(1000);
		show("as a user");
		_exit(0);
	}
	wait(NULL);
	if (fork() == 0) {
		// What it may write it has opened before.
		int fd = open("/proc/self/oom_score_adj", O_RDWR);
		setresuid(1000, 1000, 1000);
		for (int n = 0; n < 4; n++) {
			static const char *all[] = {"400", "300", "299", "350"};
			ssize_t bytes = pwrite(fd, all[n], 3, 0);
			printf("user %s: %zd %s\n", all[n], bytes, bytes < 0 ? strerrorname_np(errno) : "");
		}
		show("user");
		fflush(stdout);
		_exit(0);
	}
	wait(NULL);
	show("parent");
	return 0;
}

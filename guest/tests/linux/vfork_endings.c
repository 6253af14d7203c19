// build: gcc
// oracle: linux
// mem: 512M
//
// Several processes execute programs by vfork at once, each of which takes long to be taken apart: whoever acts as its child
// goes on as soon as that has a domain of its own, whatever else the servers are still deleting.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXECUTORS = 4, EACH = 30, REGIONS = 24, APART = 1 << 20, PAGES = 256 };

// Memory in many places, of which each needs tables of its own.
static int executed(const char *status) {
	for (int n = 0; n < REGIONS; n++) {
		char *at = mmap(NULL, APART, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		for (int page = 0; page < PAGES; page++)
			at[page * 4096L] = 1;
	}
	return atoi(status);
}

static int execute(void) {
	int right = 0;
	for (int n = 0; n < EACH; n++) {
		char status[8];
		sprintf(status, "%d", n % 100);
		pid_t pid = vfork();
		if (pid == 0) {
			execl("/proc/self/exe", "executed", status, NULL);
			_exit(127);
		}
		int end = 0;
		right += waitpid(pid, &end, 0) == pid && WIFEXITED(end) && WEXITSTATUS(end) == n % 100;
	}
	return right == EACH ? 0 : 1;
}

int main(int count, char **words) {
	if (count > 1)
		return executed(words[1]);
	for (int n = 0; n < EXECUTORS; n++)
		if (fork() == 0)
			_exit(execute());
	for (int n = 0; n < EXECUTORS; n++) {
		int end = -1;
		wait(&end);
		printf("one ends with %d\n", end);
	}
	return 0;
}

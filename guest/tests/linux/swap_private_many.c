// build: gcc
// oracle: linux
// mem: 64M
// swap: 512M
// cores: 2
// timeout: 400
// runs: when its suite is asked for
//
// More copies of pages of files, and stacks, than there is memory, of several processes, some of which end in the middle.
#define _GNU_SOURCE
#include <signal.h>
#include <sys/resource.h>

#include "private.h"

// More copies than there is memory, of several; others end in the middle.
static void pressure(void)
{
	size_t pages = 14 * MIB / PAGE;
	int fd = new_file(pages, 0), ok = 1;
	pid_t children[5], victims[2];
	for (int n = 0; n < 5; n++) {
		int end[2];
		pipe(end);
		children[n] = fork();
		if (children[n] == 0) {
			uint64_t *at = written(fd, pages);
			for (size_t page = 0; page < pages; page++)
				copy(at, page);
			int ok = 1;
			for (int round = 0; round < 2; round++)
				for (size_t page = 0; page < pages; page++)
					ok &= is(at + page * WORDS, page, of_copy);
			_exit(!ok);
		}
		if (n < 2) {
			victims[n] = fork();
			if (victims[n] == 0) {
				uint64_t *at = written(fd, pages);
				for (;;)
					for (size_t page = 0; page < pages; page++) {
						at[page * WORDS]++;
						if (page == pages / 2)
							write(end[1], "", 1);
					}
			}
			char byte;
			close(end[1]);
			read(end[0], &byte, 1);
			kill(victims[n], SIGKILL);
			int status;
			ok &= waitpid(victims[n], &status, 0) == victims[n] && WTERMSIG(status) == SIGKILL;
		}
	}
	for (int n = 0; n < 5; n++)
		ok &= ends_well(children[n]);
	said("more than there is memory", ok && file_is(fd, pages));
	close(fd);
}

// The same of stacks.
static void stacks(void)
{
	int ok = 1;
	pid_t children[4];
	for (int n = 0; n < 4; n++) {
		children[n] = fork();
		if (children[n] == 0) {
			struct rlimit limit = {40 * MIB, RLIM_INFINITY};
			setrlimit(RLIMIT_STACK, &limit);
			_exit(!(deep(300, n) && deep(310, n + 5)));
		}
	}
	for (int n = 0; n < 4; n++)
		ok &= ends_well(children[n]);
	said("deep stacks", ok);
}

int main(void)
{
	pressure();
	stacks();
	return 0;
}

// build: gcc
// mem: 64M
// swap: 64M
// timeout: 300
// expect-stdout: errors: right\nothers: refused\ntoo much: ENOMEM, and nothing is lost\nkilled: still in use\noff: empty\nwithout: as it was\nheader: wanted\non: priority 7\nagain: as it was\nat once: as it was\n
//
// swapoff has everything come back, swapon has pages leave again; with errors in Linux's order, too little memory, a kill in the
// middle, and processes that fork and write meanwhile.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "filled.h"
#include "meminfo.h"
#define DISK "/dev/swap"

// Its line in /proc/swaps: KiB used and priority; 0 if it has none.
static int listed(unsigned long *used, int *priority)
{
	char line[256];
	unsigned long size;
	int found = 0;
	FILE *f = fopen("/proc/swaps", "r");
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, DISK " partition %lu %lu %d", &size, used, priority) == 3)
			found = 1;
	if (f)
		fclose(f);
	return found;
}

static int is(const char *what, long result, int wanted)
{
	int got = result < 0 ? errno : 0;
	if (got != wanted)
		printf("%s: %d, not %d\n", what, got, wanted);
	return got == wanted;
}

#define ON(path, flags) syscall(SYS_swapon, path, flags)
#define OFF(path) syscall(SYS_swapoff, path)

static int errors(void)
{
	char *bad = (char *)1, *longest = malloc(5000);
	memset(longest, 'a', 4999);
	longest[4999] = 0;
	int ok = 1, fd = open("/tmp/file", O_RDWR | O_CREAT, 0600);
	ok &= fd >= 0 && !ftruncate(fd, MIB);
	symlink("loop", "/tmp/loop");
	mkfifo("/tmp/fifo", 0600);
	for (int off = 0; off < 2; off++) {
#define TRY(name, path, wanted) ok &= is(name, off ? OFF(path) : ON(path, 0), wanted)
		TRY("no file", "/nowhere", ENOENT);
		TRY("empty", "", ENOENT);
		TRY("bad address", bad, EFAULT);
		TRY("too long", longest, ENAMETOOLONG);
		TRY("below a file", "/tmp/file/x", ENOTDIR);
		TRY("loop", "/tmp/loop", ELOOP);
		TRY("directory", "/tmp", EISDIR);
		TRY("file of memory", "/tmp/file", EINVAL);
		TRY("device", "/dev/null", EINVAL);
	}
	ok &= is("unknown flag", ON(DISK, 0x80000), EINVAL);
	ok &= is("unknown flag first", ON(bad, 0x80000), EINVAL);
	ok &= is("in use", ON(DISK, 0), EBUSY);
	return ok;
}

static int others(void)
{
	int status;
	if (fork() == 0) {
		int ok = !setresgid(7, 7, 7) && !setresuid(7, 7, 7);
		ok &= is("on", ON(DISK, 0), EPERM) & is("off", OFF(DISK), EPERM);
		ok &= is("on, bad address", ON((char *)1, 0), EPERM);
		ok &= is("off, bad address", OFF((char *)1), EPERM);
		ok &= is("on, no file", ON("/nowhere", 0), EPERM);
		ok &= is("off, empty", OFF(""), EPERM);
		ok &= is("on, unknown flag", ON((char *)1, 0x80000), EINVAL);
		ok &= open(DISK, O_RDONLY) < 0 && errno == EACCES;
		exit(!ok);
	}
	wait(&status);
	if (fork() == 0) {
		// Root of a user name space has nothing to say about the machine.
		int ok = !setresgid(7, 7, 7) && !setresuid(7, 7, 7) && !unshare(CLONE_NEWUSER);
		ok &= is("on, name space", ON(DISK, 0), EPERM) & is("off, name space", OFF(DISK), EPERM);
		exit(!ok);
	}
	int second;
	wait(&second);
	return status == 0 && second == 0;
}

static int header(void)
{
	char page[4096], zeros[4096] = {0};
	int fd = open(DISK, O_RDWR);
	struct stat st;
	int ok = fd >= 0 && !fstat(fd, &st) && S_ISBLK(st.st_mode) && lseek(fd, 0, SEEK_END) == 64 * MIB;
	ok &= pread(fd, page, 4096, 0) == 4096 && !memcmp(page + 4086, "SWAPSPACE2", 10);
	// What it has of processes is nobody's to read.
	char *all = malloc(4 * MIB);
	ok &= pread(fd, all, 4 * MIB, 4096) == 4 * MIB;
	for (size_t i = 0; i < 4 * MIB; i++)
		ok &= all[i] == 0;
	ok &= pwrite(fd, zeros, 4096, 0) == 4096 && is("no header", ON(DISK, 0), EINVAL);
	page[1024] = 2;
	ok &= pwrite(fd, page, 4096, 0) == 4096 && is("unknown version", ON(DISK, 0), EINVAL);
	page[1024] = 1;
	uint32_t pages = 64 * MIB / 4096, last;
	memcpy(&last, page + 1028, 4);
	memcpy(page + 1028, &pages, 4);
	ok &= pwrite(fd, page, 4096, 0) == 4096 && is("too short", ON(DISK, 0), EINVAL);
	memcpy(page + 1028, &last, 4);
	ok &= pwrite(fd, page, 4096, 0) == 4096;
	free(all);
	return !close(fd) && ok;
}

static int worker(int n)
{
	// Forks, writes and looks, until it is told to end.
	size_t bytes = MIB;
	uint64_t *p = some(8 * MIB);
	fill(p, bytes, n);
	for (int round = 0; round < 10; round++) {
		int status;
		pid_t child = fork();
		if (child == 0) {
			int ok = same(p, bytes, n + round);
			fill(p, bytes / 2, 1000);
			_exit(!(ok && same(p, bytes / 2, 1000)));
		}
		if (waitpid(child, &status, 0) != child || status || !same(p, bytes, n + round))
			return 1;
		fill(p, bytes, n + round + 1);
		madvise(p, 8 * MIB, MADV_PAGEOUT);
	}
	return 0;
}

int main(void)
{
	unsigned long used = 0;
	int priority = 0, status, ok;
	setvbuf(stdout, 0, _IOLBF, 0);
	printf("errors: %s\n", errors() ? "right" : "WRONG");
	printf("others: %s\n", others() ? "refused" : "WRONG");

	// There is not memory for all.
	uint64_t *p = some(24 * MIB), *q = some(56 * MIB);
	fill(p, 24 * MIB, 1);
	fill(q, 56 * MIB, 2);
	ok = listed(&used, &priority) && used > 16 * 1024 && priority == -2;
	ok &= is("too much", OFF(DISK), ENOMEM);
	ok &= field("SwapTotal") == 64 * 1024 && is("in use still", ON(DISK, 0), EBUSY);
	ok &= same(p, 24 * MIB, 1) && same(q, 56 * MIB, 2);
	printf("too much: %s\n", ok ? "ENOMEM, and nothing is lost" : "WRONG");
	munmap(q, 56 * MIB);

	// Who is about to do it is killed; perhaps it was too quick.
	for (int round = 0, caught = 0; round < 20 && !caught; round++) {
		madvise(p, 24 * MIB, MADV_PAGEOUT);
		pid_t child = fork();
		if (child == 0)
			_exit(OFF(DISK) != 0);
		while (field("SwapTotal") != 0 && waitpid(child, &status, WNOHANG) == 0)
			sched_yield();
		int was_at_it = field("SwapTotal") == 0 && listed(&used, &priority) && used > 0;
		kill(child, SIGKILL);
		waitpid(child, &status, 0);
		caught = was_at_it && WIFSIGNALED(status);
		ok = caught && field("SwapTotal") == 64 * 1024 && listed(&used, &priority);
		if (!listed(&used, &priority))
			ON(DISK, 0);
	}
	printf("killed: %s\n", ok && same(p, 24 * MIB, 1) ? "still in use" : "WRONG");

	madvise(p, 24 * MIB, MADV_PAGEOUT);
	ok = listed(&used, &priority) && used > 4 * 1024 && is("off", OFF(DISK), 0);
	ok &= !listed(&used, &priority) && field("SwapTotal") == 0 && field("SwapFree") == 0;
	ok &= is("off twice", OFF(DISK), EINVAL);
	printf("off: %s\n", ok ? "empty" : "WRONG");
	// What asks for pages to leave has none to go to.
	madvise(p, 24 * MIB, MADV_PAGEOUT);
	unsigned char vec[24 * MIB / 4096];
	ok = mincore(p, 24 * MIB, vec) == 0;
	for (size_t i = 0; i < sizeof vec; i++)
		ok &= vec[i] & 1;
	printf("without: %s\n", ok && same(p, 24 * MIB, 1) ? "as it was" : "WRONG");
	printf("header: %s\n", header() ? "wanted" : "WRONG");
	ok = is("on", ON(DISK, SWAP_FLAG_PREFER | 7), 0) && listed(&used, &priority);
	printf("on: priority %d\n", ok ? priority : -100);
	q = some(56 * MIB);
	fill(q, 56 * MIB, 3);
	ok = listed(&used, &priority) && used > 16 * 1024;
	ok &= same(q, 56 * MIB, 3) && same(p, 24 * MIB, 1);
	printf("again: %s\n", ok ? "as it was" : "WRONG");
	munmap(q, 56 * MIB);

	// Off and on while others fork, write and have their pages leave. There is memory for all of it.
	munmap(p + 8 * MIB / 8, 16 * MIB);
	pid_t pids[3];
	for (int n = 0; n < 3; n++)
		if ((pids[n] = fork()) == 0)
			_exit(worker(10 * n));
	ok = 1;
	int left = 3, rounds = 0;
	while (left > 0) {
		if (OFF(DISK) == 0) {
			rounds++;
			ok &= is("on", ON(DISK, 0), 0);
		} else {
			ok &= is("off", -1, ENOMEM);
		}
		pid_t ended = waitpid(-1, &status, WNOHANG);
		if (ended > 0) {
			if (status)
				printf("a process: %#x\n", status);
			ok &= status == 0;
			left--;
		}
	}
	ok &= rounds > 0 && same(p, 8 * MIB, 1);
	printf("at once: %s\n", ok ? "as it was" : "WRONG");
	return 0;
}

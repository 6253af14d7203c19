// build: gcc,musl
// oracle: linux
//
// /proc/PID/pagemap: what is there, what is not, what is a file's, of the process itself and of its child; what is no whole
// word is refused, and nothing is told behind the end of the address space.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 8 };

static int from;

// Present, swapped, of a file; a page that several have is not exclusive.
static void show(const char *what, void *at, int pages) {
	uint64_t words[PAGES];
	off_t offset = (uintptr_t)at / PAGE * 8;
	ssize_t got = pread(from, words, pages * 8, offset);
	printf("%s: %zd:", what, got);
	for (int n = 0; n < got / 8; n++) {
		const char *kind = words[n] >> 61 & 1 ? "file" : words[n] >> 56 & 1 ? "own" : "other";
		printf(" %s%s", words[n] >> 63 ? kind : "none", words[n] >> 62 & 1 ? "+out" : "");
	}
	printf("\n");
}

static void refused(const char *what, ssize_t got) {
	printf("%s: %zd%s%s\n", what, got, got < 0 ? " " : "", got < 0 ? strerror(errno) : "");
}

static void *map(int prot, int flags, int fd, size_t pages) {
	void *at = mmap(NULL, pages * PAGE, prot, flags, fd, 0);
	if (at == MAP_FAILED)
		perror("mmap"), exit(1);
	return at;
}

static void look(char *small, char *file, char *shared) {
	show("small", small, PAGES);
	show("private file", file, PAGES);
	show("shared", shared, PAGES);
}

int main(void) {
	char words[64];
	from = open("/proc/self/pagemap", O_RDONLY);
	struct stat stat;
	fstat(from, &stat);
	printf("mode %o, %ld bytes\n", stat.st_mode, (long)stat.st_size);
	refused("half a word", pread(from, words, 12, 0));
	refused("from within one", pread(from, words, 8, 4));
	refused("nothing", pread(from, words, 0, 0));
	refused("behind the end", pread(from, words, 64, 1L << 40));
	refused("at the end", pread(from, words, 64, ((1L << 47) / PAGE - 3) * 8));
	refused("write", pwrite(from, words, 8, 0));
	printf("seek from the end %ld\n", (long)lseek(from, 0, SEEK_END));
	printf("seek to 16 %ld\n", (long)lseek(from, 16, SEEK_SET));
	refused("read", read(from, words, 16));
	printf("at %ld\n", (long)lseek(from, 0, SEEK_CUR));

	char *small = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, PAGES);
	madvise(small, PAGES * PAGE, MADV_NOHUGEPAGE);
	small[0] = small[2 * PAGE] = 1;
	int fd = memfd_create("pages", 0);
	ftruncate(fd, PAGES * PAGE);
	char zeros[PAGES * PAGE];
	memset(zeros, 1, sizeof zeros);
	write(fd, zeros, sizeof zeros);
	char *file = map(PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, PAGES);
	madvise(file, PAGES * PAGE, MADV_RANDOM);
	for (int n = 0; n < PAGES; n++)
		(void)*(volatile char *)(file + n * PAGE);
	file[PAGE] = 2;
	char *shared = map(PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, PAGES);
	shared[3 * PAGE] = 1;
	char *hole = map(PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, PAGES);
	munmap(hole + PAGE, PAGE);
	look(small, file, shared);
	show("hole", hole, PAGES);
	madvise(small, PAGE, MADV_DONTNEED);
	show("given back", small, PAGES);
	fflush(stdout);

	int ready[2];
	pipe(ready);
	pid_t child = fork();
	if (child == 0) {
		small[2 * PAGE] = small[3 * PAGE] = 3;
		write(ready[1], "", 1);
		pause();
	}
	read(ready[0], words, 1);
	close(from);
	char name[40];
	sprintf(name, "/proc/%d/pagemap", child);
	from = open(name, O_RDONLY);
	printf("the child's %s\n", from < 0 ? strerror(errno) : "opens");
	refused("half a word", pread(from, words, 12, 0));
	refused("at the end", pread(from, words, 64, ((1L << 47) / PAGE - 3) * 8));
	show("small of the child", small, PAGES);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	refused("of a process that has gone", pread(from, words, 64, 0));
	return 0;
}

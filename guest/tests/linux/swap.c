// build: gcc
// oracle: linux
// mem: 64M
// swap: 512M
// timeout: 580
//
// Memory and files several times as large as the machine's memory: whatever leaves comes back as it was, after forks, for several
// processes at once, by read and by mapping, and when all are gone the store is empty.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ul << 20)

static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static uint64_t *some(size_t bytes, int flags)
{
	void *p = mmap(0, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return p;
}

static void fill(uint64_t *at, size_t bytes, uint64_t seed)
{
	for (size_t i = 0; i < bytes / 8; i++)
		at[i] = next(&seed);
}

static int same(const uint64_t *at, size_t bytes, uint64_t seed)
{
	for (size_t i = 0; i < bytes / 8; i++)
		if (at[i] != next(&seed))
			return 0;
	return 1;
}

static uint64_t swap_used(void)
{
	char line[256];
	unsigned long total = 0, left = 0;
	FILE *f = fopen("/proc/meminfo", "r");
	while (f && fgets(line, sizeof line, f)) {
		sscanf(line, "SwapTotal: %lu", &total);
		sscanf(line, "SwapFree: %lu", &left);
	}
	if (f)
		fclose(f);
	return total - left;
}

static const char *word(int ok)
{
	return ok ? "as it was" : "WRONG";
}

static void said(const char *what, int ok)
{
	printf("%s: %s\n", what, word(ok));
	fflush(stdout);
}

static int wait_all(int n)
{
	int ok = 1, status;
	while (n-- > 0)
		ok &= wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
	return ok;
}

static void private(void)
{
	uint64_t *p = some(72 * MIB, MAP_PRIVATE);
	fill(p, 72 * MIB, 1);
	said("private", same(p, 72 * MIB, 1));
	// A child has what it had, and changes what it likes.
	if (fork() == 0) {
		int ok = same(p, 72 * MIB, 1);
		for (size_t page = 0; page < 72 * MIB / 4096; page += 3)
			p[page * 512 + 1] = page;
		for (size_t page = 0; page < 72 * MIB / 4096; page += 3)
			ok &= p[page * 512 + 1] == page;
		_exit(!ok);
	}
	for (size_t page = 1; page < 72 * MIB / 4096; page += 7)
		p[page * 512 + 2] ^= ~0ul;
	int ok = wait_all(1);
	for (size_t page = 1; page < 72 * MIB / 4096; page += 7)
		p[page * 512 + 2] ^= ~0ul;
	said("after a fork", ok && same(p, 72 * MIB, 1));
	madvise(p, 36 * MIB, MADV_DONTNEED);
	said("given up", p[0] == 0 && p[36 * MIB / 8 - 1] == 0);
	munmap(p, 72 * MIB);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static void four(void)
{
	for (int n = 0; n < 4; n++) {
		if (fork() == 0) {
			size_t bytes = 10 * MIB;
			uint64_t *p = some(bytes, MAP_PRIVATE), sum = 0, again = 0;
			fill(p, bytes, 77 + n);
			for (size_t i = 0; i < bytes / 8; i++)
				sum += p[i];
			qsort(p, bytes / 8, 8, compare);
			int ok = 1;
			for (size_t i = 0; i < bytes / 8; i++) {
				again += p[i];
				ok &= i == 0 || p[i - 1] <= p[i];
			}
			_exit(!(ok && sum == again));
		}
	}
	said("four that sort", wait_all(4));
}

static void shared(void)
{
	uint64_t *p = some(40 * MIB, MAP_SHARED);
	fill(p, 20 * MIB, 5);
	if (fork() == 0) {
		int ok = same(p, 20 * MIB, 5);
		fill(p + 20 * MIB / 8, 20 * MIB, 6);
		_exit(!ok);
	}
	int ok = wait_all(1);
	said("shared", ok && same(p, 20 * MIB, 5) && same(p + 20 * MIB / 8, 20 * MIB, 6));
	munmap(p, 40 * MIB);
}

static void file(void)
{
	static uint64_t piece[MIB / 8];
	int fd = open("/tmp/large", O_RDWR | O_CREAT | O_TRUNC, 0600);
	int ok = 1;
	for (int n = 0; n < 64; n++) {
		fill(piece, MIB, 1000 + n);
		ok &= write(fd, piece, MIB) == MIB;
	}
	for (int n = 0; n < 64; n++)
		ok &= pread(fd, piece, MIB, n * MIB) == MIB && same(piece, MIB, 1000 + n);
	said("file", ok);
	uint64_t *p = mmap(0, 64 * MIB, PROT_READ, MAP_PRIVATE, fd, 0);
	ok = p != MAP_FAILED;
	for (int n = 63; ok && n >= 0; n--)
		ok &= same(p + n * MIB / 8, MIB, 1000 + n);
	said("mapped", ok);
	munmap(p, 64 * MIB);
	for (int n = 0; n < 64; n += 2) {
		fill(piece, MIB, 2000 + n);
		ok &= pwrite(fd, piece, MIB - 1000, n * MIB + 500) == MIB - 1000;
	}
	uint64_t other[MIB / 8];
	for (int n = 0; n < 64; n++) {
		fill(piece, MIB, 1000 + n);
		if (n % 2 == 0) {
			static uint64_t changed[MIB / 8];
			fill(changed, MIB, 2000 + n);
			memcpy((char *)piece + 500, changed, MIB - 1000);
		}
		ok &= pread(fd, other, MIB, n * MIB) == MIB && memcmp(piece, other, MIB) == 0;
	}
	said("written over", ok);
	ok = ftruncate(fd, 40 * MIB + 123) == 0 && ftruncate(fd, 64 * MIB) == 0;
	ok &= pread(fd, other, MIB, 40 * MIB) == MIB;
	for (size_t i = 123; i < MIB; i++)
		ok &= ((char *)other)[i] == 0;
	said("truncated", ok);
	close(fd);
	unlink("/tmp/large");
}

static void pipes(void)
{
	int ends[2];
	if (pipe(ends))
		exit(1);
	size_t bytes = 32 * MIB;
	if (fork() == 0) {
		uint64_t *p = some(bytes, MAP_PRIVATE);
		close(ends[0]);
		fill(p, bytes, 9);
		for (size_t at = 0; at < bytes;) {
			ssize_t n = write(ends[1], (char *)p + at, bytes - at);
			if (n <= 0)
				_exit(1);
			at += n;
		}
		_exit(0);
	}
	close(ends[1]);
	uint64_t *p = some(bytes, MAP_PRIVATE);
	size_t at = 0;
	for (ssize_t n = 1; n > 0; at += n > 0 ? n : 0)
		n = read(ends[0], (char *)p + at, bytes - at);
	close(ends[0]);
	int ok = wait_all(1);
	said("through a pipe", ok && at == bytes && same(p, bytes, 9));
	munmap(p, bytes);
}

static int all_there(void *p, size_t bytes)
{
	static unsigned char there[64 * MIB / 4096];
	if (mincore(p, bytes, there))
		return 0;
	for (size_t i = 0; i < bytes / 4096; i++)
		if (!(there[i] & 1))
			return 0;
	return 1;
}

static void wired(void)
{
	uint64_t *p = some(10 * MIB, MAP_PRIVATE);
	fill(p, 10 * MIB, 3);
	int ok = mlock(p, 10 * MIB) == 0;
	uint64_t *q = some(60 * MIB, MAP_PRIVATE);
	fill(q, 60 * MIB, 4);
	ok &= all_there(p, 10 * MIB);
	ok &= madvise(p, 10 * MIB, MADV_PAGEOUT) == -1 && all_there(p, 10 * MIB);
	ok &= munlock(p, 10 * MIB) == 0 && same(p, 10 * MIB, 3) && same(q, 60 * MIB, 4);
	said("locked", ok);
	ok = madvise(p, 10 * MIB, MADV_PAGEOUT) == 0 && madvise(q, 60 * MIB, MADV_COLD) == 0;
	said("advised", ok && same(p, 10 * MIB, 3) && same(q, 60 * MIB, 4));
	munmap(p, 10 * MIB);
	munmap(q, 60 * MIB);
}

// Each page is in memory or out of it, and what was to leave has left where there is a store.
static void told(void)
{
	enum { COUNT = 512 };
	uint64_t *p = some(COUNT * 4096, MAP_PRIVATE), words[COUNT];
	fill(p, COUNT * 4096, 5);
	int from = open("/proc/self/pagemap", O_RDONLY);
	int there = 0, out = 0;
	for (int advised = 0; advised < 2; advised++) {
		there = out = 0;
		pread(from, words, sizeof words, (uintptr_t)p / 4096 * 8);
		for (int n = 0; n < COUNT; n++)
			there += words[n] >> 63, out += words[n] >> 62 & 1;
		if (there + out != COUNT)
			break;
		madvise(p, COUNT * 4096, MADV_PAGEOUT);
	}
	struct sysinfo info;
	sysinfo(&info);
	close(from);
	said("told", there + out == COUNT && (out > 0) == (info.totalswap > 0) && same(p, COUNT * 4096, 5));
	munmap(p, COUNT * 4096);
}

static void killed(void)
{
	for (int n = 0; n < 4; n++) {
		int child = fork();
		if (child == 0) {
			uint64_t *p = some(60 * MIB, MAP_PRIVATE);
			for (uint64_t seed = 1;; seed++)
				fill(p, 60 * MIB, seed);
		}
		usleep(100000 + 50000 * n);
		kill(child, SIGKILL);
		wait(0);
	}
	said("killed", 1);
}

int main(void)
{
	private();
	four();
	shared();
	file();
	pipes();
	wired();
	told();
	killed();
	// What is in the store is somebody's, and nobody is left. (Small things of this process may be there, on Linux.)
	printf("store: %s\n", swap_used() < 4096 ? "empty" : "NOT EMPTY");
	return 0;
}

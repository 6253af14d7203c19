// build: gcc
// link: -pthread
// oracle: linux
// mem: 64M
// swap: 512M
// cores: 2
// timeout: 300
//
// Copies of pages of files, and stacks: they leave memory when they are told to, and come back as they were; the file
// is what it was, and is seen again where copies are given up.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "private.h"

enum { PAGES = 300 }; // of more than one chunk, and not of whole ones

static void advice(int is_memfd)
{
	int fd = new_file(PAGES, is_memfd);
	uint64_t *at = written(fd, PAGES), word = 5;
	int ok = leaves(at, PAGES) && same_pages(at, 0, PAGES);
	// By a call, and by a write to some of each row.
	ok &= leaves(at, PAGES);
	int pipes[2];
	pipe(pipes);
	ok &= write(pipes[1], at + 120 * WORDS, 8) == 8 && read(pipes[0], &word, 8) == 8 && word == of_copy(120, 0);
	ok &= pread(fd, at + 150 * WORDS, PAGE, 150 * PAGE) == PAGE && is(at + 150 * WORDS, 150, of_file);
	copy(at, 150);
	ok &= same_pages(at, 0, PAGES) && file_is(fd, PAGES);
	said(is_memfd ? "memfd" : "file", ok);

	// What is not a copy is the file's still.
	ok = leaves(at, PAGES);
	word = 77;
	ok &= pwrite(fd, &word, 8, PAGE) == 8 && at[WORDS] == 77;
	ok &= pwrite(fd, &word, 8, 3 * PAGE) == 8 && at[3 * WORDS] == of_copy(3, 0);
	word = of_file(1, 0);
	pwrite(fd, &word, 8, PAGE);
	word = of_file(3, 0);
	pwrite(fd, &word, 8, 3 * PAGE);
	said("beside copies", ok && same_pages(at, 0, PAGES));

	// Given up in part, and as a whole.
	ok = leaves(at, PAGES) && madvise(at + 90 * WORDS, 60 * PAGE, MADV_DONTNEED) == 0;
	for (size_t page = 90; page < 150; page++)
		ok &= is(at + page * WORDS, page, of_file);
	ok &= same_pages(at, 0, 90) && same_pages(at + 150 * WORDS, 150, PAGES);
	for (size_t page = 90; page < 150; page++)
		if (is_written(page))
			copy(at, page);
	ok &= leaves(at, PAGES) && same_pages(at, 0, PAGES) && leaves(at, PAGES);
	ok &= madvise(at, PAGES * PAGE, MADV_DONTNEED) == 0;
	for (size_t page = 0; page < PAGES; page++)
		ok &= is(at + page * WORDS, page, of_file);
	said("given up", ok && file_is(fd, PAGES));
	munmap(at, PAGES * PAGE);
	close(fd);
}

static void forks(void)
{
	int fd = new_file(PAGES, 0);
	uint64_t *at = written(fd, PAGES);
	int ok = leaves(at, PAGES), go[2];
	char byte;
	pipe(go);
	pid_t child = fork();
	if (child == 0) {
		// What the parent writes meanwhile is not seen.
		read(go[0], &byte, 1);
		int ok = same_pages(at, 0, 150);
		for (size_t page = 150; page < PAGES; page++)
			at[page * WORDS + 1] = 9;
		ok &= leaves(at, PAGES) && same_pages(at, 0, 150);
		for (size_t page = 150; page < PAGES; page++)
			ok &= at[page * WORDS + 1] == 9 && at[page * WORDS + 2] == (is_written(page) ? of_copy : of_file)(page, 2);
		if (fork() == 0)
			_exit(!(same_pages(at, 0, 150) && at[200 * WORDS + 1] == 9));
		int status;
		wait(&status);
		_exit(!(ok && status == 0));
	}
	for (size_t page = 0; page < 150; page++)
		at[page * WORDS] = 8;
	ok &= leaves(at, PAGES);
	write(go[1], "", 1);
	for (size_t page = 0; page < 150; page++)
		ok &= at[page * WORDS] == 8 && at[page * WORDS + 1] == (is_written(page) ? of_copy : of_file)(page, 1);
	ok &= same_pages(at + 150 * WORDS, 150, PAGES);
	ok &= ends_well(child) && same_pages(at + 150 * WORDS, 150, PAGES) && file_is(fd, PAGES);
	said("forks", ok);
	munmap(at, PAGES * PAGE);
	close(fd);
}

static sigjmp_buf back;
static void on_signal(int signal) { siglongjmp(back, signal); }
static int signal_of(volatile uint64_t *at)
{
	int signal = sigsetjmp(back, 1);
	if (!signal)
		(void)*at;
	return signal;
}

// Rights, moves and holes of parts of what has left.
static void parts(void)
{
	int fd = new_file(PAGES, 0);
	uint64_t *at = written(fd, PAGES);
	int ok = leaves(at, PAGES);
	ok &= mprotect(at + 30 * WORDS, 30 * PAGE, PROT_READ) == 0;
	ok &= mprotect(at + 60 * WORDS, 30 * PAGE, PROT_NONE) == 0;
	ok &= same_pages(at, 0, 60) && same_pages(at + 90 * WORDS, 90, PAGES);
	ok &= signal_of(at + 60 * WORDS) == SIGSEGV && leaves(at, PAGES);
	ok &= mprotect(at, 90 * PAGE, PROT_READ | PROT_WRITE) == 0 && same_pages(at, 0, PAGES);
	said("rights", ok);

	ok = leaves(at, PAGES) && munmap(at + 40 * WORDS, 20 * PAGE) == 0;
	ok &= signal_of(at + 45 * WORDS) == SIGSEGV;
	uint64_t *zeros = mmap(at + 140 * WORDS, 10 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	for (size_t n = 0; n < 10 * WORDS; n++)
		ok &= zeros[n] == 0;
	// Where something of the file was, and is again.
	uint64_t *again = mmap(at + 160 * WORDS, 10 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 160 * PAGE);
	for (size_t page = 160; page < 170; page++)
		ok &= is(again + (page - 160) * WORDS, page, of_file);
	ok &= same_pages(at, 0, 40) && same_pages(at + 60 * WORDS, 60, 140) && same_pages(at + 170 * WORDS, 170, PAGES);
	said("holes", ok);

	ok = leaves(at + 170 * WORDS, PAGES - 170);
	uint64_t *moved = mremap(at + 170 * WORDS, 100 * PAGE, 130 * PAGE, MREMAP_MAYMOVE);
	ok &= moved != MAP_FAILED && same_pages(moved, 170, 270) && is(moved + 110 * WORDS, 280, of_file);
	ok &= leaves(moved, 130) && same_pages(moved, 170, 270);
	ok &= leaves(at, 40);
	uint64_t *place = mmap(0, 60 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ok &= mremap(at, 40 * PAGE, 40 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place + WORDS) == place + WORDS;
	ok &= same_pages(place + WORDS, 0, 40) && signal_of(at) == SIGSEGV;
	said("moves", ok && file_is(fd, PAGES));
	close(fd);
}

// A file that becomes shorter takes copies of its end with it.
static void shorter(void)
{
	int fd = new_file(PAGES, 1);
	uint64_t *at = written(fd, PAGES);
	int ok = leaves(at, PAGES) && ftruncate(fd, 120 * PAGE) == 0;
	ok &= signal_of(at + 130 * WORDS) == SIGBUS && same_pages(at, 0, 120);
	ok &= ftruncate(fd, PAGES * PAGE) == 0;
	for (size_t n = 120 * WORDS; n < PAGES * WORDS; n++)
		ok &= at[n] == 0;
	said("a shorter file", ok);
	munmap(at, PAGES * PAGE);
	close(fd);
}

// Data of a program.
static uint64_t data[200 * WORDS] = {1, 2, 3};

static void data_of_program(void)
{
	int ok = 1;
	for (size_t n = 0; n < 200 * WORDS; n += 64)
		data[n] = n ^ 99;
	uint64_t *at = (uint64_t *)(((uintptr_t)data + PAGE - 1) & -PAGE);
	ok &= leaves(at, 199);
	for (size_t n = 0; n < 200 * WORDS; n++)
		ok &= data[n] == (n % 64 == 0 ? n ^ 99 : n == 1 ? 2 : n == 2 ? 3 : 0);
	said("data of a program", ok);
}

// All of the stack leaves, with what is in use of it.
static int stack_leaves(void)
{
	char line[256];
	unsigned long from, to;
	int found = 0;
	FILE *f = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof line, f))
		if (strstr(line, "[stack]") && sscanf(line, "%lx-%lx", &from, &to) == 2)
			found += madvise((void *)from, to - from, MADV_PAGEOUT) == 0;
	fclose(f);
	return found == 1;
}

static int __attribute__((noinline)) deep_and_out(int depth, uint64_t seed)
{
	volatile uint64_t mine[16 * WORDS];
	for (size_t n = 0; n < 16 * WORDS; n++)
		mine[n] = seed + n;
	int ok = depth == 0 ? stack_leaves() : deep_and_out(depth - 1, seed + 5);
	if (depth == 3) {
		pid_t child = fork();
		if (child == 0)
			_exit(!(stack_leaves() && deep(20, 9)));
		ok &= ends_well(child);
	}
	for (size_t n = 0; n < 16 * WORDS; n++)
		ok &= mine[n] == seed + n;
	return ok;
}

static void stacks(void)
{
	int ok = deep_and_out(30, 1) && stack_leaves() && deep(40, 2);
	said("stack", ok);
	// One that grows on, beneath what has left.
	uint64_t *top = mmap(0, 512 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(top, 512 * PAGE);
	uint64_t *grows = mmap(top + 500 * WORDS, 12 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
	for (size_t n = 0; n < 12 * WORDS; n++)
		grows[n] = n;
	ok = leaves(grows, 12);
	for (int page = 1; page <= 30; page++)
		*(grows - page * (int)WORDS) = page;
	ok &= leaves(grows - 30 * WORDS, 42);
	for (int page = 1; page <= 30; page++)
		ok &= *(grows - page * (int)WORDS) == (uint64_t)page && *(grows - page * (int)WORDS + 1) == 0;
	for (size_t n = 0; n < 12 * WORDS; n++)
		ok &= grows[n] == n;
	ok &= leaves(grows - 30 * WORDS, 42) && madvise(grows - 10 * WORDS, 20 * PAGE, MADV_DONTNEED) == 0;
	for (size_t n = 0; n < 10 * WORDS; n++)
		ok &= grows[n] == 0;
	for (size_t n = 10 * WORDS; n < 12 * WORDS; n++)
		ok &= grows[n] == n;
	said("what grows downward", ok);
}

static uint64_t *counters;
static volatile int done;

static void *counts(void *from)
{
	for (int round = 0; round < 300; round++)
		for (size_t page = (size_t)from; page < 64; page += 3)
			counters[page * WORDS]++;
	return 0;
}

static void *sends(void *unused)
{
	while (!done)
		leaves(counters, 64);
	return 0;
}

// Some count in pages that another one has leave.
static void at_once(void)
{
	int fd = new_file(64, 0), ok = 1;
	pthread_t threads[4];
	counters = map(fd, 64);
	for (size_t n = 0; n < 3; n++)
		pthread_create(threads + n, 0, counts, (void *)n);
	pthread_create(threads + 3, 0, sends, 0);
	for (int n = 0; n < 3; n++)
		pthread_join(threads[n], 0);
	done = 1;
	pthread_join(threads[3], 0);
	for (size_t page = 0; page < 64; page++)
		ok &= counters[page * WORDS] == of_file(page, 0) + 300 && counters[page * WORDS + 1] == of_file(page, 1);
	said("at once", ok && file_is(fd, 64));
	close(fd);
}

int main(void)
{
	struct sigaction action = {.sa_handler = on_signal};
	sigaction(SIGBUS, &action, 0);
	sigaction(SIGSEGV, &action, 0);
	advice(0);
	advice(1);
	forks();
	parts();
	shorter();
	data_of_program();
	stacks();
	at_once();
	return 0;
}

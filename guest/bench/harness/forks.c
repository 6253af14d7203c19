// Programs that fork with memory of their own. `forks workers`: a server with 4 MiB of data, whose workers read much of it and change some;
// `forks tree`: processes that fork processes; `forks programs`: a large process that starts small programs.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 1024, WORKERS = 12 };

static unsigned char *data;

static void check(int is_right, const char *what)
{
	if (is_right)
		return;
	printf("WRONG: %s\n", what);
	fflush(stdout);
	_exit(1);
}

static unsigned char *prepare(int pages)
{
	data = sbrk((intptr_t)pages * PAGE);
	check(data != (void *)-1, "sbrk");
	for (int page = 0; page < pages; page++)
		memset(data + (size_t)page * PAGE, page, PAGE);
	return data;
}

static int end_of(pid_t child)
{
	int status = -1;
	check(child > 0 && waitpid(child, &status, 0) == child, "waitpid");
	check(WIFEXITED(status), "the end of a child");
	return WEXITSTATUS(status);
}

// Each worker changes every 16th page and reads every fourth; the server changes one page between two of them.
static void workers(void)
{
	prepare(PAGES);
	int sum = 0;
	for (int n = 0; n < WORKERS; n++) {
		fflush(stdout);
		pid_t worker = fork();
		if (worker == 0) {
			unsigned own = 0;
			for (int page = 0; page < PAGES; page += 4)
				own += data[(size_t)page * PAGE + n];
			for (int page = n % 16; page < PAGES; page += 16) {
				unsigned char *at = data + (size_t)page * PAGE;
				check(at[100] == (unsigned char)page, "what the server had");
				at[100] = n;
				own += at[101];
			}
			_exit(own % 251);
		}
		data[(size_t)n * PAGE] = n;
		sum += end_of(worker);
	}
	for (int page = WORKERS; page < PAGES; page++)
		check(data[(size_t)page * PAGE + 100] == (unsigned char)page, "what the workers must not change");
	printf("workers %d\n", sum);
}

// Every process of a tree forks two more, and writes to a page of each of its ancestors.
static int grow(int depth)
{
	int sum = data[(size_t)depth * PAGE];
	data[(size_t)depth * PAGE]++;
	for (int n = 0; n < 2 && depth < 4; n++) {
		pid_t child = fork();
		if (child == 0)
			_exit(grow(depth + 1) % 251);
		data[(size_t)(depth + 8) * PAGE]++;
		sum += end_of(child);
	}
	return sum;
}

static void tree(void)
{
	prepare(256);
	fflush(stdout);
	printf("tree %d\n", grow(0));
	check(data[PAGE] == 1, "what a child has written to");
}

static void programs(void)
{
	prepare(PAGES);
	for (int n = 0; n < 6; n++) {
		fflush(stdout);
		pid_t child = fork();
		if (child == 0) {
			execl("/bin/busybox", "true", (char *)NULL);
			_exit(127);
		}
		check(end_of(child) == 0, "the program");
	}
	puts("programs");
}

int main(int count, char **arguments)
{
	const char *which = count == 2 ? arguments[1] : "";
	if (strcmp(which, "workers") == 0)
		workers();
	else if (strcmp(which, "tree") == 0)
		tree();
	else if (strcmp(which, "programs") == 0)
		programs();
	else
		return 2;
	return 0;
}

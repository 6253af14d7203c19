// Files of a root image that are mapped, and open, while they are changed; and somebody else who may not change them. With
// an argument there are users: whoever starts it is root.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 20000

static void say(const char *what, long result) { printf("%s: %ld\n", what, result); }
static void ask(const char *what, long result) { printf("%s: %s\n", what, result < 0 ? strerrorname_np(errno) : "done"); }

static char *map(int fd, int prot, int flags)
{
	char *at = mmap(NULL, BYTES, prot, flags, fd, 0);

	if (at == MAP_FAILED)
		exit(printf("mmap: %s\n", strerrorname_np(errno)));
	return at;
}

static void mapped(void)
{
	int read_fd = open("data/mapped", O_RDONLY), other = open("data/mapped", O_RDONLY), fd;
	char *shared = map(read_fd, PROT_READ, MAP_SHARED), *own = map(read_fd, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	char buffer[8] = "";
	struct stat before, after;

	fstat(read_fd, &before);
	say("shared", shared[5000]);
	say("own", own[9000]);
	// Behind the end, in the last page.
	say("behind", shared[before.st_size]);
	own[9000] = 'o';
	fd = open("data/mapped", O_RDWR);
	say("write", pwrite(fd, "WRITTEN", 7, 5000));
	say("shared after a write", shared[5000]);
	say("own page after a write", own[9000]);
	say("read", pread(other, buffer, 7, 5000));
	puts(buffer);
	char *writable = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
	writable[12000] = 'w';
	say("shared after a store", shared[12000]);
	say("read", pread(other, buffer, 1, 12000));
	puts(buffer);
	fstat(other, &after);
	say("inode stays", before.st_ino == after.st_ino && before.st_dev == after.st_dev);
	say("size", after.st_size);
	// A child has what was mapped before the change, and sees the next one.
	pid_t child = fork();
	if (child == 0) {
		while (shared[100] != 'c')
			usleep(1000);
		_exit(own[9000] == 'o' ? 7 : 8);
	}
	pwrite(fd, "c", 1, 100);
	int status;
	waitpid(child, &status, 0);
	say("child", WEXITSTATUS(status));
	say("truncate", ftruncate(fd, 4096));
	say("shared", shared[100]);
	unlink("data/mapped");
	say("read", pread(other, buffer, 1, 100));
	fstat(other, &after);
	say("links", after.st_nlink);
}

static void first_store(void)
{
	int fd = open("data/stored", O_RDWR);
	char *shared = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED), byte;

	say("first", shared[0]);
	shared[0] = 's';
	say("read", pread(fd, &byte, 1, 0));
	say("byte", byte);
	struct stat what;
	fstat(fd, &what);
	say("size", what.st_size);
	say("punched", fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096));
	say("hole", shared[5000]);
	say("kept", shared[9000] != 0);
}

static void stranger(void)
{
	if (setgid(1000) || setuid(1000))
		exit(printf("no users\n"));
	int fd = open("data/mine", O_RDONLY);
	ask("read", fd);
	ask("open to write", open("data/mine", O_RDWR));
	ask("open to append", open("data/mine", O_WRONLY | O_APPEND));
	ask("truncate", truncate("data/mine", 0));
	ask("chmod", chmod("data/mine", 0777));
	ask("chown", chown("data/mine", 1000, 1000));
	ask("unlink", unlink("data/mine"));
	ask("rename", rename("data/mine", "data/yours"));
	ask("link", link("data/mine", "data/yours"));
	ask("create", open("data/new", O_CREAT | O_WRONLY, 0644));
	ask("mkdir", mkdir("data/new", 0755));
	ask("secret", open("data/secret", O_RDONLY));
	ask("closed", open("data/closed/leaf", O_RDONLY));
	ask("map to write", mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0);
	void *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	ask("protect", mprotect(at, 4096, PROT_READ | PROT_WRITE));
	ask("write", write(fd, "x", 1));
	ask("own", open("data/ours", O_RDWR));
}

int main(int count, char **arguments)
{
	(void)arguments;
	setbuf(stdout, NULL);
	umask(022);
	mapped();
	first_store();
	if (count > 1) {
		pid_t child = fork();
		if (child == 0) {
			stranger();
			_exit(0);
		}
		waitpid(child, NULL, 0);
		char buffer[16] = "";
		read(open("data/mine", O_RDONLY), buffer, 4);
		puts(buffer);
	}
	return 0;
}

// Mappings of files: private and shared, past the end, after the descriptor is closed.
// oracle: linux
#include "test.h"
#include <setjmp.h>

static sigjmp_buf back;
static volatile int caught, code;
static void *volatile where;

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)context;
    caught = signal, code = info->si_code, where = info->si_addr;
    siglongjmp(back, 1);
}

static int touch(char *at) {
    caught = code = 0;
    if (sigsetjmp(back, 1) == 0) return *(volatile char *)at;
    return -1;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
    char data[PAGE + 100];
    for (size_t i = 0; i < sizeof data; i++) data[i] = 'a' + i % 26;
    int file = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
    SHOW(write(file, data, sizeof data));
    char *shared = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    char *private = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    char *second = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, file, PAGE);
    SHOW(memcmp(shared, data, sizeof data));
    SHOW(memcmp(private, data, sizeof data));
    SHOW(memcmp(second, data + PAGE, 100));
    printf("behind the end: %d %d\n", shared[PAGE + 100], private[2 * PAGE - 1]);
    SHOW(touch(shared + 2 * PAGE));
    printf("signal %d code %d at the page: %d\n", caught, code, where == shared + 2 * PAGE);
    SHOW(touch(private + 3 * PAGE - 1));
    printf("signal %d code %d at the byte: %d\n", caught, code, where == private + 3 * PAGE - 1);
    shared[0] = 'S';
    private[1] = 'P';
    char two[3] = "";
    SHOW(pread(file, two, 2, 0));
    puts(two);
    printf("%c%c %c%c\n", shared[0], shared[1], private[0], private[1]);
    SHOW(pwrite(file, "xy", 2, PAGE));
    printf("%.2s %.2s %.2s\n", shared + PAGE, private + PAGE, second);
    SHOW(ftruncate(file, 2 * PAGE + 1));
    printf("after it grew: %d\n", touch(shared + 2 * PAGE));
    SHOW(msync(shared, 3 * PAGE, MS_SYNC));
    SHOW(msync(shared + 1, PAGE, MS_SYNC));
    // A file takes the place of its only mapping.
    int again = open("mapped", O_RDONLY);
    char *place = mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE, again, 0);
    SHOW(mmap(place, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, again, PAGE) == place);
    SHOW(memcmp(place + 2, data + PAGE + 2, 98));
    SHOW(munmap(place, 2 * PAGE));
    close(again);
    SHOW(msync(shared, PAGE, MS_SYNC | MS_ASYNC));
    close(file);
    SHOW(unlink("mapped"));
    printf("%.2s\n", shared + PAGE);
    file = open("mapped", O_RDONLY | O_CREAT, 0600);
    SHOW_PTR(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    SHOW_PTR(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0));
    SHOW_PTR(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, file, 5));
    char *read_only = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);
    SHOW(mprotect(read_only, PAGE, PROT_READ | PROT_WRITE));
    file = open("mapped", O_WRONLY);
    SHOW_PTR(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, file, 0));
    int ends[2];
    pipe(ends);
    SHOW_PTR(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, ends[0], 0));
    return 0;
}

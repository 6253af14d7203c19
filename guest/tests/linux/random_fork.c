// After a fork neither process can compute what the other one draws: the child looks in all memory of
// its library for a key of the generator (ChaCha20) that yields what its parent has drawn.
//
// build: gcc
// expect-stdout: before: different\nparent and child: different\nno key\nvfork: different\nend\n
#include "test.h"
#include <setjmp.h>
#include <sys/random.h>

enum { BYTES = 64, WORDS = BYTES / 4 };
// abi::layout; how much of it is looked at.
#define LIBRARY_IMAGE 0x7fffe0010000ul
#define LIBRARY_PAGES 2048ul

static sigjmp_buf away;
static void on_fault(int signal) { (void)signal; siglongjmp(away, 1); }

static int draw(uint32_t *out) { return getrandom(out, BYTES, 0) == BYTES; }
static const char *compare(const uint32_t *a, const uint32_t *b) {
    return memcmp(a, b, BYTES) ? "different" : "THE SAME";
}

#define ROTATE(x, n) ((x) << n | (x) >> (32 - n))
#define QUARTER(a, b, c, d)                       \
    a += b, d = ROTATE(d ^ a, 16), c += d, b = ROTATE(b ^ c, 12), \
    a += b, d = ROTATE(d ^ a, 8), c += d, b = ROTATE(b ^ c, 7)

static int yields(const uint32_t *key, uint64_t counter, uint64_t nonce, const uint32_t *wanted) {
    uint32_t start[WORDS] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574}, s[WORDS];
    memcpy(start + 4, key, 32);
    memcpy(start + 12, &counter, 8);
    memcpy(start + 14, &nonce, 8);
    memcpy(s, start, sizeof s);
    for (int i = 0; i < 10; i++) {
        for (int n = 0; n < 4; n++) QUARTER(s[n], s[4 + n], s[8 + n], s[12 + n]);
        for (int n = 0; n < 4; n++)
            QUARTER(s[n], s[4 + (n + 1) % 4], s[8 + (n + 2) % 4], s[12 + (n + 3) % 4]);
    }
    return s[0] + start[0] == wanted[0] && s[15] + start[15] == wanted[15];
}

// A key has hardly a word of zeroes; a nonce is near it, if there is any. The C library has drawn, too.
static int is_key(const uint32_t *at, const uint32_t *wanted) {
    for (int i = 0; i < 8; i++)
        if (at[i] < 0x10000) return 0;
    for (uint64_t counter = 0; counter < 8; counter++) {
        if (yields(at, counter, 0, wanted)) return 1;
        for (int near = -8; near < 16; near += 2) {
            uint64_t nonce;
            memcpy(&nonce, at + near, 8);
            if ((near < 0 || near >= 8) && yields(at, counter, nonce, wanted)) return 1;
        }
    }
    return 0;
}

static int find_key(const uint32_t *wanted) {
    signal(SIGSEGV, on_fault);
    signal(SIGBUS, on_fault);
    for (volatile unsigned long page = 0; page < LIBRARY_PAGES; page++) {
        uint32_t copy[24 + PAGE / 4] = {0};
        if (sigsetjmp(away, 1)) continue;
        memcpy(copy + 8, (void *)(LIBRARY_IMAGE + page * PAGE), PAGE);
        for (unsigned i = 0; i + 8 <= PAGE / 4; i++)
            if (is_key(copy + 8 + i, wanted)) return 1;
    }
    return 0;
}

// Where the library is somebody else's program, there is nothing to look at.
static int is_tessera(void) { return access("/proc/tessera", F_OK) == 0; }

int main(void) {
    uint32_t first[WORDS], second[WORDS], theirs[WORDS];
    int ends[2];
    pipe(ends);
    if (!draw(first) || !draw(second)) return 1;
    printf("before: %s\n", compare(first, second));
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        // The parent's first one after the fork.
        if (read(ends[0], theirs, BYTES) != BYTES) return 2;
        int found = is_tessera() && find_key(theirs);
        if (!draw(first)) return 3;
        printf("parent and child: %s\n", compare(first, theirs));
        puts(found ? "THE KEY" : "no key");
        return 0;
    }
    if (!draw(first) || write(ends[1], first, BYTES) != BYTES) return 4;
    if (waitpid(pid, NULL, 0) != pid) return 5;
    pid = vfork();
    if (pid == 0) _exit(!draw(second));
    if (!draw(theirs) || waitpid(pid, NULL, 0) != pid) return 6;
    printf("vfork: %s\n", compare(second, theirs));
    puts("end");
    return 0;
}

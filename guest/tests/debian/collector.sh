# A garbage collector that takes what was written to from /proc/self/pagemap: Boehm's, static, incremental, alone and with threads
# deb: gcc,libc6-dev,libgc-dev,bash,coreutils,grep,mawk
# mem: 1G
# Not recorded: Linux prints the same if it has soft-dirty pages, which not all have.
set -e
cd /tmp; export PATH=/usr/bin:/bin
cat > p.c <<'C'
#define GC_THREADS
#include <gc.h>
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// Trees that live and die, beside a table that is written to now and then: an old page leads to a new object only because it
// was written to. A collector that overlooks a write loses the object.
typedef struct Node { struct Node *left, *right; long value; } Node;
static Node *tree(int depth, long value) {
    Node *node = GC_MALLOC(sizeof *node);
    node->value = value;
    if (depth) { node->left = tree(depth - 1, 2 * value); node->right = tree(depth - 1, 2 * value + 1); }
    return node;
}
static long sum(const Node *node) { return node ? node->value + sum(node->left) + sum(node->right) : 0; }
enum { OLD = 200000, ROUNDS = 400 };
static Node **old;
static void *work(void *arg) {
    long which = (long)arg, wrong = 0;
    unsigned seed = which;
    for (int round = 0; round < ROUNDS; round++) {
        long at = rand_r(&seed) % (OLD / 4) * 4 + which;
        Node *now = tree(6, at);
        long expected = sum(now);
        old[at] = now;
        GC_end_stubborn_change(&old[at]);
        for (int i = 0; i < 30; i++) tree(7, i);
        long again = rand_r(&seed) % (OLD / 4) * 4 + which;
        if (old[again] && old[again]->value != again) wrong++;
        if (sum(old[at]) != expected) wrong++;
    }
    return (void *)wrong;
}
// Does it have the file open by which it forgets what was written to?
static int asks_pagemap(void) {
    int open = 0;
    for (int fd = 3; fd < 30; fd++) {
        char name[64], to[64] = "";
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        if (readlink(name, to, sizeof to - 1) > 0 && strstr(to, "clear_refs")) open = 1;
    }
    return open;
}
int main(int argc, char **argv) {
    int threads = atoi(argv[1]);
    GC_INIT();
    if (argc > 2) GC_enable_incremental();
    old = GC_MALLOC(OLD * sizeof *old);
    pthread_t t[4];
    long wrong = 0;
    for (long i = 0; i < threads; i++) GC_pthread_create(&t[i], 0, work, (void *)i);
    for (long i = 0; i < threads; i++) { void *r; GC_pthread_join(t[i], &r); wrong += (long)r; }
    long all = 0;
    for (long i = 0; i < OLD; i++) if (old[i]) { all++; if (old[i]->value != i || !sum(old[i])) wrong += i != 0; }
    printf("threads %d incremental %d clear_refs %d: %ld kept, %ld wrong, collected %d, heap below 200 MB %d\n", threads, GC_is_incremental_mode(),
           asks_pagemap(), all, wrong, GC_get_gc_no() > 3, GC_get_heap_size() < 200000000);
    return wrong != 0;
}
C
gcc -O1 -w -static -o p p.c -lgc -lpthread -ldl 2> errors || cat errors
./p 1; ./p 1 incremental; ./p 4 incremental
GC_PRINT_STATS=1 ./p 1 incremental 2>&1 | grep -c "Using soft-dirty"
# It looks at few pages again: of what is old, what was written to.
GC_PRINT_STATS=1 ./p 1 incremental 2>&1 | awk '/^Marked from [0-9]+ dirty pages/ { n++; if ($3 > most) most = $3 } END { print (n > 3), (most < 2000) }'

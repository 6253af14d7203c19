// How much memory do things need that do nothing?
#include "scale.h"

static void processes(void) {
    static pid_t children[300];
    int count = is_small() ? 10 : 300;
    // The first makes what all share.
    pid_t first = idle_child();
    double before = free_bytes();
    for (int i = 0; i < count; i++) children[i] = idle_child();
    double after = free_bytes();
    end_children(children, count);
    end_children(&first, 1);
    report_bytes("idle_process", (before - after) / count, "");
}

static void pipes(void) {
    static int ends[450][2];
    int count = is_small() ? 50 : 450;
    expect("pipe", pipe(ends[0]), 0);
    double before = free_bytes();
    for (int i = 1; i < count; i++) expect("pipe", pipe(ends[i]), 0);
    double after = free_bytes();
    for (int i = 0; i < count; i++) close(ends[i][0]), close(ends[i][1]);
    report_bytes("new_pipe", (before - after) / (count - 1), "");
}

// One page in each 2 MiB.
static void sparse(void) {
    const size_t step = 2 * MIB, count = is_small() ? 64 : 300;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *at = mmap(NULL, count * step, PROT_READ | PROT_WRITE, flags, -1, 0);
    expect("mmap failed", at == MAP_FAILED, 0);
    double before = free_bytes();
    for (size_t i = 0; i < count; i++) at[i * step] = 1;
    double after = free_bytes();
    for (size_t i = 0; i < count; i++) expect("a page", at[i * step], 1);
    unmap(at, count * step / PAGE);
    report_bytes("one_page_in_each_2_MiB", (before - after) / count, "");
}

int main(void) {
    processes();
    pipes();
    sparse();
}

/* A linked list that is still there when the machine is switched on again.
 *
 *   gcc -static -o list examples/list.c
 *   ./x run --nvdimm memory:64M -- ./list one two      appends, and prints all there is
 *   ./x run --nvdimm memory -- ./list three
 *
 * The list lies in a morsel; its pointers are ordinary ones. A node is filled before the pointer to it is stored, so the list is
 * whole at any moment; and as the file is atomic, it is after a power failure as at the last commit.
 */
#define _GNU_SOURCE
#include "morsel.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 20 };

struct node {
    struct node *next;
    char text[56];
};

struct list {
    struct node *first, **end; /* where the next one is to be linked */
    long used;                 /* nodes */
    struct node nodes[];
};

static void append(struct list *list, const char *text) {
    struct node *node = &list->nodes[list->used];
    if ((char *)(node + 1) > (char *)list + BYTES) {
        fprintf(stderr, "the list is full\n");
        exit(1);
    }
    strncpy(node->text, text, sizeof node->text - 1);
    node->next = NULL;
    list->used++;
    *list->end = node;
    list->end = &node->next;
}

int main(int argc, char **argv) {
    const char *path = "/pmem/list";
    struct list *list = morsel_open(path, BYTES, 0x100000000000);
    if (!list || morsel_atomic(path, 1) != 0) {
        perror(path);
        return 1;
    }
    if (!list->end) list->end = &list->first;
    for (int n = 1; n < argc; n++) append(list, argv[n]);
    if (argc > 1 && morsel_commit(list, BYTES) != 0) {
        perror("commit");
        return 1;
    }
    for (struct node *node = list->first; node; node = node->next) printf("%p %s\n", (void *)node, node->text);
    return 0;
}

// Settings of a terminal that are locked: who may lock, both ends, each field, what stays and what is set.
// build: gcc
// oracle: linux
#define _GNU_SOURCE
#include "test.h"
#include <fcntl.h>
#include <pty.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct settings {
    unsigned words[4];
    unsigned char line, characters[19];
};

static int ends[2];

static void show(const char *what, const struct settings *s) {
    printf("%s: %x %x %x %x %x", what, s->words[0], s->words[1], s->words[2], s->words[3], s->line);
    for (int i = 0; i < 19; i++) printf(" %x", s->characters[i]);
    printf("\n");
}

int main(void) {
    struct settings before, locked, set, now;
    if (openpty(&ends[0], &ends[1], NULL, NULL, NULL)) return 1;
    for (int i = 0; i < 2; i++) {
        SHOW(ioctl(ends[i], TIOCGLCKTRMIOS, &locked));
        show("locked", &locked);
    }
    SHOW(ioctl(ends[1], TCGETS, &before));
    // Every other bit, and every other character.
    memset(&locked, 0, sizeof locked);
    for (int i = 0; i < 4; i++) locked.words[i] = 0x55555555;
    for (int i = 0; i < 19; i += 2) locked.characters[i] = 1;
    SHOW(ioctl(ends[0], TIOCSLCKTRMIOS, NULL));
    SHOW(ioctl(ends[0], TIOCSLCKTRMIOS, &locked));
    SHOW(ioctl(ends[1], TIOCGLCKTRMIOS, &now));
    show("locked", &now);
    set = before;
    set.words[0] ^= 0x3f;
    set.words[1] ^= 0xf;
    set.words[3] ^= 0x7f;
    for (int i = 0; i < 19; i++) set.characters[i] ^= 0x40;
    SHOW(ioctl(ends[1], TCSETS, &set));
    SHOW(ioctl(ends[1], TCGETS, &now));
    for (int i = 0; i < 4; i++) now.words[i] ^= before.words[i];
    for (int i = 0; i < 19; i++) now.characters[i] ^= before.characters[i];
    show("changed", &now);
    IN_CHILD("somebody else", if (setuid(1000)) _exit(9); SHOW(ioctl(ends[1], TIOCSLCKTRMIOS, &locked)); SHOW(ioctl(ends[1], TIOCGLCKTRMIOS, &now)));
    int null = open("/dev/null", O_RDWR);
    SHOW(ioctl(null, TIOCGLCKTRMIOS, &now));
    memset(&locked, 0, sizeof locked);
    locked.line = 1;
    SHOW(ioctl(ends[1], TIOCSLCKTRMIOS, &locked));
    SHOW(ioctl(ends[0], TCSETS, &set));
    SHOW(ioctl(ends[1], TCGETS, &now));
    for (int i = 0; i < 4; i++) now.words[i] ^= before.words[i];
    for (int i = 0; i < 19; i++) now.characters[i] ^= before.characters[i];
    show("changed", &now);
    return 0;
}

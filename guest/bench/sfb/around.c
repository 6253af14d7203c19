// around CASE PROGRAM ARGUMENTS…: runs a program and tells what it took.
#include "counts.h"

int main(int argc, char **argv) {
    expect("too few arguments", argc < 3, 0);
    calibrate();
    struct counts from = count_now();
    pid_t child = fork();
    if (child == 0) {
        execv(argv[2], argv + 2);
        _exit(127);
    }
    wait_for(child);
    report_since(argv[1], from);
}

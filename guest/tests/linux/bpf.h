// A program for filters of calls, as `seccomp(2)` has it.
#ifndef BPF_H
#define BPF_H
#include <stdint.h>

struct instruction {
    uint16_t code;
    uint8_t jt, jf;
    uint32_t k;
};
struct program {
    uint16_t len;
    struct instruction *code;
};
#endif

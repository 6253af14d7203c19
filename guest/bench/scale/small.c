// How much of a machine with 128 MiB is free for programs?
// mem: 128M
#include "scale.h"

int main(void) { report_bytes("free_of_128_MiB", free_bytes(), "better=higher"); }

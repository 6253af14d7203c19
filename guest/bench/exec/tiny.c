// A program that does nothing but end, for guest/bench/micro/exec.c: what is left is what a program of its kind
// costs to start. Compiled with glibc, with musl, and (NO_LIBC) with nothing at all.
enum { STATUS = 37 };

#ifdef NO_LIBC
void _start(void) {
    __asm__ volatile("syscall" : : "a"(60), "D"(STATUS) : "rcx", "r11", "memory");
    __builtin_unreachable();
}
#else
int main(void) { return STATUS; }
#endif

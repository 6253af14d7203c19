// Vector and floating-point state over forks, signals, faults and preemption; thread-local storage.
// oracle: linux
#include "test.h"
#include <fenv.h>
#include <math.h>
#include <sys/time.h>

static __thread int local = 11, local_zero;
static volatile int interrupts;

static void disturb(int signal) {
    (void)signal;
    volatile double noise = 1.5;
    for (int i = 0; i < 50; i++) noise = sqrt(noise * 3.25 + i);
    __asm__ volatile("pcmpeqd %%xmm0, %%xmm0; movdqa %%xmm0, %%xmm7; movdqa %%xmm0, %%xmm15; fldpi; "
                     "fstp %%st(0)" ::: "xmm0", "xmm7", "xmm15");
    interrupts++;
}

// Not to be computed once only.
__attribute__((noinline)) static double work(volatile int seed) {
    double a = seed, b = 1;
    __asm__ volatile("" ::: "memory");
    for (int i = 1; i < 300000; i++) {
        a = a * 0.999999 + sin(i * 0.001) * b;
        b = 1.0 / (1.0 + fabs(a));
    }
    return a + b;
}

int main(void) {
    printf("%.15g %.15g %.17Lg\n", work(1), sqrt(2.0), 1.0L / 3);
    struct itimerval timer = {{0, 1000}, {0, 1000}};
    signal(SIGALRM, disturb);
    setitimer(ITIMER_REAL, &timer, NULL);
    double with_signals = work(1);
    printf("%.15g\n", with_signals);
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    CHECK(interrupts > 0);
    fesetround(FE_UPWARD);
    volatile double one = 1, three = 3;
    printf("%.17g\n", one / three);
    IN_CHILD("rounding is inherited", printf("%.17g\n", one / three));
    fesetround(FE_TONEAREST);
    int ends[2];
    pipe(ends);
    fflush(stdout);
    for (int i = 0; i < 4; i++) {
        if (fork() == 0) {
            double result = work(i);
            write(ends[1], &result, sizeof result);
            _exit(0);
        }
    }
    double sum = 0, part;
    for (int i = 0; i < 4; i++) {
        read(ends[0], &part, sizeof part);
        sum += round(part * 1e6);
    }
    while (wait(NULL) > 0) {}
    printf("four at a time: %.15g\n", sum);
    local = 5;
    IN_CHILD("thread-local", {
        printf("%d %d\n", local, local_zero);
        local_zero = 3;
    });
    printf("%d %d\n", local, local_zero);
    feclearexcept(FE_ALL_EXCEPT);
    volatile double zero = 0;
    printf("%f %d\n", one / zero, !!fetestexcept(FE_DIVBYZERO));
    return 0;
}

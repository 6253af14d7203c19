// What does an update of a random word cost in tables of 2 to 256 MiB (RandomAccess of the HPC
// Challenge)? With pages of 4 KiB on Tessera and Linux; with huge ones where Linux may use them.
#include "bench.h"

enum { UPDATES = 1 << 18 };

static uint64_t next(uint64_t x) { return x << 1 ^ ((int64_t)x < 0 ? 7 : 0); }

static void update(uint64_t *table, size_t words, uint64_t seed) {
    for (int i = 0; i < UPDATES; i++) {
        seed = next(seed);
        table[seed & (words - 1)] ^= seed;
    }
}

int main(void) {
    calibrate();
    for (size_t mib = 2; mib <= 256; mib = mib == 128 ? 256 : mib * 4) {
        size_t words = mib * MIB / 8;
        uint64_t *table = (uint64_t *)map(mib * MIB / PAGE);
        for (size_t i = 0; i < words; i += PAGE / 8) table[i] = i;
        for (uint64_t i = 0; i < 3; i++) {
            uint64_t seed = 0x123456789abcdef + i, from = ticks();
            update(table, words, seed);
            sample(ticks() - from);
            // The same updates again take themselves back.
            update(table, words, seed);
        }
        uint64_t wrong = 0;
        for (size_t i = 0; i < words; i++) wrong += table[i] != (i % (PAGE / 8) ? 0 : i);
        expect("wrong words", wrong, 0);
        unmap(table, mib * MIB / PAGE);
        report("update", UPDATES, "at=%zu:MiB", mib);
    }
}

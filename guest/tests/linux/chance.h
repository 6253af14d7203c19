// Chance that is repeated: whoever includes this sets `state` from a seed, to anything but 0.

static unsigned long state;

static unsigned long random_word(void) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state * 0x2545f4914f6cdd1d;
}

static unsigned below(unsigned bound) { return (random_word() >> 33) % bound; }

#define PICK(...)                                                              \
    ({                                                                         \
        const unsigned long list_[] = {__VA_ARGS__};                           \
        list_[below(sizeof list_ / sizeof *list_)];                            \
    })

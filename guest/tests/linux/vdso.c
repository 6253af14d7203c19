// The vDSO: a shared object that the kernel gives, found and read as libraries of C do, and used by them.
// oracle: linux
#include "test.h"
#include <elf.h>
#include <setjmp.h>
#include <sys/auxv.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>

static char *base;
static Elf64_Sym *symbols;
static char *strings;
static Elf64_Half *versions;
static Elf64_Verdef *definitions;
static Elf64_Word *hash;
static Elf64_Word *gnu_hash;

static unsigned long hash_of(const char *name) {
    unsigned long value = 0, high;
    for (; *name; name++) {
        value = (value << 4) + (unsigned char)*name;
        if ((high = value & 0xf0000000)) value ^= high >> 24;
        value &= ~high;
    }
    return value;
}

static void headers(void) {
    base = (char *)getauxval(AT_SYSINFO_EHDR);
    CHECK(base != NULL);
    Elf64_Ehdr *header = (void *)base;
    CHECK(memcmp(header->e_ident, ELFMAG "\2\1\1", 7) == 0);
    printf("%d %d %d\n", header->e_type, header->e_machine, header->e_version);
    Elf64_Phdr *segment = (void *)(base + header->e_phoff);
    Elf64_Dyn *dynamic = NULL;
    long shift = -1;
    for (int i = 0; i < header->e_phnum; i++, segment++) {
        if (segment->p_type == PT_LOAD) {
            shift = (long)(base + segment->p_offset - segment->p_vaddr);
            printf("loaded: flags %d, all of the file: %d\n", segment->p_flags, segment->p_filesz == segment->p_memsz);
        }
        if (segment->p_type == PT_DYNAMIC) dynamic = (void *)(base + segment->p_offset);
    }
    CHECK(shift == (long)base);
    CHECK(dynamic != NULL);
    Elf64_Dyn *name = NULL;
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        void *at = base + dynamic->d_un.d_ptr;
        switch (dynamic->d_tag) {
        case DT_SONAME: name = dynamic; break;
        case DT_STRTAB: strings = at; break;
        case DT_SYMTAB: symbols = at; break;
        case DT_HASH: hash = at; break;
        case DT_GNU_HASH: gnu_hash = at; break;
        case DT_VERSYM: versions = at; break;
        case DT_VERDEF: definitions = at; break;
        }
    }
    CHECK(name && strings && symbols && hash && versions && definitions);
    printf("%s\n", strings + name->d_un.d_val);
}

// Is a symbol of this version?
static int has_version(int symbol, const char *wanted) {
    for (Elf64_Verdef *one = definitions;; one = (void *)((char *)one + one->vd_next)) {
        if (!(one->vd_flags & VER_FLG_BASE) && (one->vd_ndx & 0x7fff) == (versions[symbol] & 0x7fff)) {
            Elf64_Verdaux *more = (void *)((char *)one + one->vd_aux);
            return one->vd_hash == hash_of(wanted) && strcmp(strings + more->vda_name, wanted) == 0;
        }
        if (one->vd_next == 0) return 0;
    }
}

// By the other hash table: the number of a symbol, 0 for none; -1 if there is no such table.
static int find_gnu(const char *name) {
    if (gnu_hash == NULL) return -1;
    Elf64_Word value = 5381;
    for (const char *at = name; *at; at++) value = value * 33 + (unsigned char)*at;
    Elf64_Word buckets = gnu_hash[0], first = gnu_hash[1], words = gnu_hash[2], shift = gnu_hash[3];
    uint64_t *filter = (void *)(gnu_hash + 4);
    uint64_t word = filter[value / 64 % words];
    if (!(word >> value % 64 & word >> (value >> shift) % 64 & 1)) return 0;
    Elf64_Word *bucket = (void *)(filter + words), *chain = bucket + buckets;
    Elf64_Word at = bucket[value % buckets];
    for (; at >= first; at++) {
        if ((chain[at - first] ^ value) >> 1 == 0 && !strcmp(strings + symbols[at].st_name, name)) return at;
        if (chain[at - first] & 1) return 0;
    }
    return 0;
}

// By the hash table, as it is meant.
static void *find(const char *name) {
    Elf64_Word buckets = hash[0];
    for (Elf64_Word at = hash[2 + hash_of(name) % buckets]; at != 0; at = hash[2 + buckets + at]) {
        Elf64_Sym *symbol = &symbols[at];
        int type = ELF64_ST_TYPE(symbol->st_info), bind = ELF64_ST_BIND(symbol->st_info);
        if (strcmp(strings + symbol->st_name, name) || symbol->st_shndx == SHN_UNDEF) continue;
        if (type != STT_FUNC || (bind != STB_GLOBAL && bind != STB_WEAK)) continue;
        if (find_gnu(name) != (int)at) printf("%s: something else by the other table\n", name);
        printf("%s: version right: %d, has a size: %d\n", name, has_version(at, "LINUX_2.6"), symbol->st_size > 0);
        return base + symbol->st_value;
    }
    if (find_gnu(name) != 0) printf("%s: by the other table only\n", name);
    printf("%s: none\n", name);
    return NULL;
}

static int64_t nanoseconds(struct timespec at) { return at.tv_sec * 1000000000ll + at.tv_nsec; }

static void clocks(void) {
    static const int ids[] = {0, 1, 4, 5, 6, 7, 11};
    int (*gettime)(clockid_t, struct timespec *) = find("__vdso_clock_gettime");
    int (*getres)(clockid_t, struct timespec *) = find("__vdso_clock_getres");
    CHECK(find("clock_gettime") == (void *)gettime);
    for (int i = 0; i < 7; i++) {
        struct timespec before, own, after, other;
        // The coarse clocks stand still for some milliseconds.
        int wrong = 0;
        for (int round = 0; round < 1000; round++) {
            wrong += syscall(SYS_clock_gettime, ids[i], &before) != 0;
            wrong += gettime(ids[i], &own) != 0;
            wrong += syscall(SYS_clock_gettime, ids[i], &after) != 0;
            wrong += nanoseconds(own) < nanoseconds(before) || nanoseconds(after) < nanoseconds(own);
            wrong += own.tv_nsec < 0 || own.tv_nsec >= 1000000000;
        }
        printf("clock %d: wrong %d\n", ids[i], wrong);
        CHECK(getres(ids[i], &own) == 0 && syscall(SYS_clock_getres, ids[i], &other) == 0);
        CHECK(nanoseconds(own) == nanoseconds(other));
        SHOW(getres(ids[i], NULL));
    }
    struct timespec time;
    // Not known to it, so asked of the kernel.
    SHOW(gettime(CLOCK_PROCESS_CPUTIME_ID, &time));
    SHOW(gettime(CLOCK_THREAD_CPUTIME_ID, &time));
    SHOW(gettime(77, &time));
    SHOW(gettime(31, &time));
    SHOW(gettime(32, &time));
    SHOW(gettime(-100000, &time));
    SHOW(getres(77, &time));
}

static void others(void) {
    int (*gettimeofday_)(struct timeval *, struct timezone *) = find("__vdso_gettimeofday");
    time_t (*time_)(time_t *) = find("__vdso_time");
    long (*getcpu_)(unsigned *, unsigned *, void *) = find("__vdso_getcpu");
    struct timeval before, own, after;
    struct timezone zone = {7, 7};
    int wrong = 0;
    for (int round = 0; round < 1000; round++) {
        syscall(SYS_gettimeofday, &before, NULL);
        wrong += gettimeofday_(&own, &zone) != 0;
        syscall(SYS_gettimeofday, &after, NULL);
        wrong += timercmp(&own, &before, <) || timercmp(&after, &own, <);
        wrong += own.tv_usec < 0 || own.tv_usec >= 1000000;
    }
    SHOW(wrong);
    printf("%d %d\n", zone.tz_minuteswest, zone.tz_dsttime);
    SHOW(gettimeofday_(NULL, &zone));
    SHOW(gettimeofday_(&own, NULL));
    time_t stored = 0, first = syscall(SYS_time, NULL), got = time_(&stored), last = syscall(SYS_time, NULL);
    CHECK(first <= got && got <= last + 1 && stored == got);
    CHECK(time_(NULL) >= got);
    unsigned cpu = 99, node = 99;
    SHOW(getcpu_(&cpu, &node, NULL));
    CHECK(cpu < 64 && node == 0);
    SHOW(getcpu_(NULL, NULL, NULL));
    CHECK(find("__vdso_nothing") == NULL);
}

static sigjmp_buf back;
static char *stopped_at;

static void stopped(int signal, siginfo_t *info, void *context) {
    stopped_at = (char *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    printf("signal %d, address %p\n", signal, info->si_addr);
    siglongjmp(back, 1);
}

// A bad address stops whoever writes there: with a system call nothing would stop.
static void used(void) {
    struct sigaction action = {.sa_sigaction = stopped, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    if (sigsetjmp(back, 1) == 0) clock_gettime(CLOCK_MONOTONIC, (void *)0x18);
    CHECK(stopped_at >= base && stopped_at < base + PAGE * 2);
    stopped_at = NULL;
    if (sigsetjmp(back, 1) == 0) gettimeofday((void *)0x28, NULL);
    // Some libraries make it of clock_gettime.
    CHECK(stopped_at != NULL);
    SHOW(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, 0x18));
}

static void maps(void) {
    char line[256], image[8] = "", data[8] = "";
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long last = 0;
    while (fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        char rights[8];
        sscanf(line, "%lx-%lx %7s", &start, &end, rights);
        if (start < last) printf("not in order: %s", line);
        last = end;
        if (strstr(line, "[vdso]")) {
            strcpy(image, rights);
            CHECK((char *)start == base);
        }
        if (strstr(line, "[vvar]")) strcpy(data, rights);
    }
    fclose(maps);
    printf("[vdso] %s, [vvar] %s\n", image, data);
}

int main(void) {
    headers(), clocks(), others(), used();
    IN_CHILD("child", headers(); clocks(); used(); exit(0));
    maps();
}

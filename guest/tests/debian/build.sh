# gcc, make, ar, ld: a library of many generated files by `make -j`, a shared one, link-time optimisation; all equal to the byte
# deb: gcc,make,libc6-dev,liblua5.4-dev,zlib1g-dev,dash,coreutils,grep,sed,findutils,diffutils,mawk
# mem: 1G
set -e
cd /tmp; mkdir build; cd build
# 10 modules of which each calls some of the others, and a table that knows all.
for i in $(seq 10); do
    { echo '#include <stdint.h>'; echo '#include "all.h"'; echo "#define N $i"
      cat <<'C'
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
static uint64_t state = N * 0x9e3779b97f4a7c15u;
struct node { struct node *left, *right; uint64_t key; };
static uint64_t next(void) { state ^= state << 13; state ^= state >> 7; return state ^= state << 17; }
static struct node *insert(struct node *at, uint64_t key) {
    static struct node pool[256]; static int used;
    if (!at) { at = &pool[used++ % 256]; *at = (struct node){0, 0, key}; return at; }
    if (key < at->key) at->left = insert(at->left, key); else at->right = insert(at->right, key);
    return at;
}
static uint64_t sum(const struct node *at, unsigned depth) {
    return at ? at->key * depth + sum(at->left, depth + 1) + sum(at->right, depth + 1) : 0;
}
uint64_t PASTE(work, N)(unsigned deep) {
    struct node *root = 0;
    for (int i = 0; i < 200; i++) root = insert(root, next() % 10007);
    return sum(root, 1) + (deep ? calls[next() % 10](deep - 1) : 0);
}
C
    } > work$i.c
done
{ echo '#include <stdint.h>'; seq 10 | sed 's/.*/uint64_t work&(unsigned);/'; echo 'extern uint64_t (*const calls[10])(unsigned);'; } > all.h
{ echo '#include "all.h"'; echo 'uint64_t (*const calls[10])(unsigned) = {'; seq 10 | sed 's/.*/work&,/'; echo '};'; } > calls.c
cat > main.c <<'C'
#include <stdio.h>
#include <dlfcn.h>
#include <lauxlib.h>
#include <lualib.h>
#include <zlib.h>
#include "all.h"
int main(void) {
    uint64_t total = 0;
    for (int i = 0; i < 10; i++) total += calls[i](20);
    printf("%llu\n", (unsigned long long)total);
    lua_State *lua = luaL_newstate(); luaL_openlibs(lua);
    if (luaL_dostring(lua, "local t = {} for i = 1, 1000 do t[i] = i * i % 97 end table.sort(t) print(#t, t[500], string.format('%.3f', math.pi))")) puts(lua_tostring(lua, -1));
    lua_close(lua);
    unsigned char out[2000]; unsigned long size = sizeof out;
    static const unsigned char zeros[5000];
    int error = compress(out, &size, zeros, sizeof zeros);
    printf("%d %lu\n", error, size);
    void *plugin = dlopen("./plugin.so", RTLD_NOW);
    double (*f)(double) = plugin ? dlsym(plugin, "twice") : 0;
    printf("%.1f\n", f ? f(21) : -1);
}
C
printf 'double twice(double x) { return 2 * x; }\n' > plugin.c
cat > Makefile <<'M'
OBJECTS := $(patsubst %.c,%.o,$(sort $(wildcard work*.c)) calls.c)
CFLAGS := -O2 -g -Wall
LUA := -I/usr/include/lua5.4
all: main plugin.so
main: main.c liball.a
	$(CC) $(CFLAGS) $(LUA) -rdynamic -o $@ $^ -l:liblua5.4.a -l:libz.a -lm -ldl
liball.a: $(OBJECTS)
	$(AR) rcsD $@ $^
plugin.so: plugin.c
	$(CC) $(CFLAGS) -shared -fPIC -o $@ $^
%.o: %.c all.h
	$(CC) $(CFLAGS) -c -o $@ $<
clean:
	rm -f main *.so *.o *.a
.PHONY: all clean
M
make -s -j4 all; ./main
sha256sum *.o liball.a main plugin.so
touch work7.c; make -j4 | sort; make -q && echo up to date
gcc -O2 -flto -w -o lto work*.c calls.c main.c -I/usr/include/lua5.4 -rdynamic -l:liblua5.4.a -l:libz.a -lm; ./lto | head -1; strip -o lto.stripped lto; sha256sum lto.stripped
size liball.a | tail -1; nm -g --defined-only calls.o; objdump -d plugin.so --disassemble=twice | grep -c 'add\|mul'
echo 'int main(void) { return undeclared; }' > bad.c; gcc -c bad.c || echo "status $?"

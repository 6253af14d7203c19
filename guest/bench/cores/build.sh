# Work like that of a build, in parts: each of some sources is made into an object, 8 at a time, each
# by several processes in pipelines; one program is linked from all of them; its test has threads; and
# small commands are run one after the other, as a configuration script does. The answers are the same
# in whatever order things are done.

object() {
    seq "$1" 7 3000 | sed 's/^/int v_/; s/$/;/' >"$1.c"
    awk -v n="$1" '{ sub(";", ""); s = (s * 31 + length($2) + n + NR) % 65521; print s, $2 }' "$1.c" |
        sort -n | gzip >"$1.o"
    if [ "$(gzip -dc "$1.o" | wc -l)" = "$(wc -l <"$1.c")" ]; then echo "made $1"; fi
}

# What follows is a part of this name.
part() {
    echo "@cores $1"
    cat /proc/tessera/cores
    echo "@end"
}

if [ "$1" = object ]; then
    object "$2"
    exit
fi
cd /tmp || exit 1
sources=$(seq 1 "${OBJECTS:-16}")

part objects
echo "$sources" | xargs -n 1 -P 8 sh "$0" object | sort -k 2n | md5sum
part link
for n in $sources; do gzip -dc "$n.o"; done | sort -n | uniq -c | md5sum
part threads
/root/crew
part pipeline
seq 1 12000 | sed 's/1/2/' | sed 's/3/4/' | sed 's/5/6/' | md5sum
part commands
n=0
while [ $n -lt 40 ]; do
    sh -c 'exit 3'
    n=$((n + $? - 2))
done
echo "commands $n"
part end

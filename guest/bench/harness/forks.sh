# One set of programs that fork, for `./x bench uvm/figures`: what the shell does by itself, a build of many small steps, and programs with more
# memory than a shell has. What is printed is the same however pages are copied.

forks=$(pwd)/forks

# Subshells, substitutions and pipes.
count=0
for word in one two three four five six seven eight; do
	count=$((count + $(echo "$word" | wc -c)))
	(cd / && value="$word-$count" && echo "$value") | tr a-z A-Z
	[ "$(echo "$word" | sed 's/e/E/g')" = "$word" ] && echo "$word has none"
done
list=$(for n in 9 3 7 1; do echo $n; done | sort | while read -r n; do echo -n "$n,"; done)
echo "$list"

# A build: sources that are made, compiled to tables one by one, and put together.
mkdir -p /tmp/build && cd /tmp/build || exit 1
for n in 1 2 3 4 5 6; do
	awk -v n=$n 'BEGIN { for (i = 0; i < 200; i++) printf "int f%d_%d(int a) { return a * %d + g%d(a); }\n", n, i, i * n, i % 7 }' >part$n.c
done
for source in part*.c; do
	sed -e 's/[(){};,*+]/ & /g' "$source" | tr -s ' ' '\n' | grep -v '^$' >"${source%.c}.words"
	sort "${source%.c}.words" | uniq -c | awk '$1 > 3 { print $2, $1 }' >"${source%.c}.table"
done
cat part*.table | sort | awk '{ sum[$1] += $2 } END { for (name in sum) print name, sum[name] }' | sort >all
wc -l <all
md5sum <all
gzip -c all | gunzip -c | cmp - all && echo "the same"
(for n in 1 2 3 4; do (md5sum <part$n.words >sum$n) & done; wait)
cat sum1 sum2 sum3 sum4
cd / && rm -r /tmp/build

# Programs with memory of their own.
"$forks" workers
"$forks" tree
"$forks" programs

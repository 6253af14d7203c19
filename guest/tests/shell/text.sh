# awk, sed and the other tools that work on text.

echo "awk"
seq 1 100 | awk '{ sum += $1 } END { print sum, NR, sum / NR }'
printf 'a 1\nb 2\na 3\n' | awk '{ s[$1] += $2 } END { for (k in s) print k, s[k] }' | sort
printf 'x:y:z\n' | awk -F: -v OFS=- '{ $2 = "Q"; print; print $NF, NF }'
awk 'BEGIN { printf "%d %5.2f %s %x %c %e\n", 42, 3.14159, "text", 255, 65, 12345.678 }'
awk 'BEGIN { print int(-3.7), 7 % 3, 1 / 3 * 3, 1e300 * 1e10, 123456789 * 987654321 }'
awk 'BEGIN { print length("hello"), substr("hello", 2, 3), index("hello", "l"), toupper("abc") }'
awk 'BEGIN { s = "aaa"; n = gsub(/a/, "b", s); print n, s; print match("foobar", /o+/), RSTART, RLENGTH }'
awk 'BEGIN { n = split("a,b,c", parts, ","); print n, parts[1], parts[3] }'
awk 'function f(n) { return n < 2 ? n : f(n - 1) + f(n - 2) } BEGIN { print f(18) }'
awk 'BEGIN { "echo from a command" | getline x; print x; print "to sort" | "sort"; print "a" | "sort" }'
awk 'BEGIN { while (i++ < 5) if (i % 2) continue; else print i; exit 3 }'; echo $?
seq 1 20 | awk 'NR % 5 == 0 { print NR ": " $0 } /^1$/, /^3$/ { print "range " $0 }'
awk 'BEGIN { print substr("x", 0), 1e6, 1000000, 0.1 + 0.2, 1 / 3, 100000 * 100000 }'
awk 'BEGIN { print length(ARGV), ARGV[1], ENVIRON["HOME"] }' argument
awk 'BEGIN { for (i = 0; i < 20000; i++) a[i] = i * i; for (i in a) s += a[i]; print s, length(a) }'

echo "sed"
printf 'one\ntwo\nthree\nfour\n' >f
sed -n 2p f
sed '2d;s/e/E/g' f
sed '/two/,/three/s/^/> /' f
sed -e 's/\(t\)\(.*\)/\2\1/' -e '$a last' f
sed -n '$=' f
sed 'N;s/\n/+/' f
sed -E 's/(o|e)+/<&>/g' f
sed '1!G;h;$!d' f
sed y/abcdefghijklmnopqrstuvwxyz/ABCDEFGHIJKLMNOPQRSTUVWXYZ/ f
sed -i 's/o/0/' f; cat f
sed 's/t/\n/;P;D' f
sed '/three/{i before
a after
}' f
seq 1 10000 | sed 's/1/one/g;s/2/two/g' | md5sum
rm f

echo "grep"
printf 'alpha\nbeta\nGamma\nalphabet\n' >f
grep -c a f; grep -n beta f; grep -v a f; grep -i gamma f; grep -w alpha f
grep -o 'a.' f; grep -E '^(alpha|beta)$' f; grep -q nothing f; echo $?
grep -F . f; echo $?; grep x missing 2>/dev/null; echo $?
seq 1 100000 | grep -c '7$'
rm f

echo "sort, uniq, cut and so on"
printf '10\n9\n2\n1\n' | sort; printf '10\n9\n2\n1\n' | sort -n
printf 'b 2\na 10\nc 1\n' | sort -k2 -n; printf 'b\na\nb\n' | sort -u
printf 'x,3\ny,1\n' | sort -t, -k2; printf 'a\nB\nc\n' | sort -f -r
printf 'a\na\nb\na\n' | uniq -c | sed 's/^ *//'; printf 'a\na\nb\n' | uniq -d
echo 'a:b:c:d' | cut -d: -f2-3; echo abcdef | cut -c2-4
echo hello | tr a-y b-z; echo 'a  b' | tr -s ' '; echo abc123 | tr -d 0-9
seq 1 10 | tail -n 3; seq 1 10 | head -n -7; seq 1 10 | tail -n +9
printf 'a\nb\n' >f; printf '1\n2\n' >g
paste f g; diff f g; cmp f g; cat f g | tac
echo 'one two three four' | fold -w 9; seq 1 3 | nl | sed 's/^ *//'; echo abc | rev
printf 'a\tb\n' | expand -t 4; seq -s, 1 5; seq 1 2 9 | xargs echo; echo 'x y z' | xargs -n 1 echo
wc -lwc f; expr 3 + 4 \* 2; expr abc : 'a\(.*\)'; basename /a/b.c .c; dirname /a/b.c
printf '%s|%5d|%-5s|%05.1f|%x|%o|%c|%%|%b\n' text 42 ab 3.14159 255 8 Z 'a\tb'
echo '1.5 * 4 + 2^10; 7/2; scale=5; 22/7' | bc
echo '2 3 + 4 * p' | dc
printf '\001\002\377' | od -An -tx1; printf 'hi\n' | hexdump -C | head -n 1; printf hi | xxd
printf 'any carnal pleas' | base64; echo YW55 | base64 -d; echo
date -u -d @0 '+%Y-%m-%d %H:%M:%S'; date -u -d @1234567890 '+%a %b %e %T %Y %j'
cal 2 2024 | md5sum; factor 360 97; printf 'z\n' | tee g >/dev/null; cat g
rm f g
ls

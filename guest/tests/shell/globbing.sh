# Globbing: patterns against names, in order.

mkdir glob && cd glob || exit 1
touch a b c ab abc .hidden 'with space' file1 file2 file10 UPPER x.c x.h y.c '[odd]' '*star'
mkdir -p d1/e1 d1/e2 d2/e1 d3
touch d1/e1/f d1/e2/f d2/e1/f

show() { printf '<%s>' "$@"; echo; }
show *
show .*[!.]
show ?
show ??
show [a-c]
show [!a-w]*
show [[:upper:]]*
show file?
show file*
show *.c *.h
show *.[ch]
show d*/
show d*/*
show */e1/*
show d?/*/f
show nothing*
show \* '*' "*"
show \[*
show *' '*
show \*star
set -f
show *
set +f
x='*.c'
show $x
show "$x"
for file in *.c; do echo "$file"; done

echo "case"
for word in abc file10 X '' 'a b' -x; do
    case $word in
        a*c) echo "$word: a*c" ;;
        *[0-9]) echo "$word: digit" ;;
        [A-Z]) echo "$word: upper" ;;
        '') echo "empty" ;;
        *\ *) echo "$word: space" ;;
        *) echo "$word: else" ;;
    esac
done

echo "a thousand names"
mkdir many && cd many || exit 1
i=0
while [ $i -lt 1000 ]; do
    : >"n$i"
    i=$((i + 1))
done
set -- *
echo $# "$1" "$2" "$3"
set -- n?
echo $#
set -- *99*
echo "$*"
rm n*
show *
cd ../..
rm -r glob
ls

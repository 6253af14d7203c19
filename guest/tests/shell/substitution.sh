# Command substitution and expansion.

echo "$(echo one) $(echo two)"
echo `echo old style`
echo "$(echo "$(echo "$(echo nested)")")"

echo "line feeds at the end go"
x=$(printf 'a\n\nb\n\n\n')
echo "[$x]"

echo "status"
x=$(exit 3)
echo $?
x=$(false; true)
echo $?

echo "more than a pipe holds"
x=$(seq 1 30000)
echo ${#x}
printf '%s\n' "$x" | md5sum

echo "splitting"
set -- $(echo "a b   c"; echo d)
echo $#
set -- "$(echo "a b   c"; echo d)"
echo $#
IFS=:
set -- $(echo "a:b c:d")
echo "$# $2"
unset IFS

echo "arithmetic"
echo $((6 * 7)) $((1 << 40)) $((-7 / 2)) $((-7 % 3)) $((0x1f + 010)) $((2 > 1 ? 5 : 6))
i=5
echo $((i++ + ++i)) $i

echo "parameters"
path=/usr/share/doc/file.tar.gz
echo "${path##*/} ${path%/*} ${path#*/} ${path%%.*} ${path:5:5} ${path/share/local} ${#path}"
unset none
echo "${none:-default} ${none-unset} ${none+set}[]"
echo "${none:=assigned} $none"
(echo "${gone:?is not set}") 2>&1 | sed 's/.*gone/gone/'
echo $?

echo "in a child only"
x=parent
(x=child; echo $x)
echo $x
y=$(x=substituted; echo $x)
echo $x $y

echo "environment"
export SHOWN=yes
hidden=no
sh -c 'echo "$SHOWN [$hidden]"'
ONCE=1 sh -c 'echo $ONCE'
echo "[$ONCE]"
env -i A=1 B=2 env

echo "positional"
set -- "a b" c "" 'd"e'
for word in "$@"; do echo "<$word>"; done
echo $# "$*"
shift 2
echo $# "$1" "$2"

echo "many of them"
i=0
while [ $i -lt 100 ]; do
    i=$(($(echo $i) + 1))
done
echo $i

# Pipelines: five stages, more data than a pipe holds, statuses, readers and writers that leave early.

echo "five stages"
seq 1 1000 | grep 7 | sed 's/7/seven/g' | sort -r | head -n 3

echo "more than a pipe holds, in five stages"
seq 1 40000 | cat | tr 0-9 a-j | cat | md5sum

echo "status of a pipeline is that of its last command"
true | false
echo $?
false | true
echo $?
exit_with() { return "$1"; }
exit_with 3 | exit_with 4 | exit_with 5
echo $?
set -o pipefail
exit_with 3 | exit_with 4 | true
echo $?
set +o pipefail
! true | false
echo $?

echo "a reader that leaves early"
yes | head -n 2
seq 1 1000000 | head -n 1
seq 1 100000 | sed 3q | tail -n 1

echo "the writer is killed by SIGPIPE"
{
    yes
    echo $? >&2
} 2>status | head -n 1
cat status
rm status

echo "a reader that gets nothing"
: | cat
printf '' | wc -c

echo "a loop at the end of a pipeline runs in a process of its own"
total=0
seq 1 5 | while read -r n; do total=$((total + n)); echo "$total"; done
echo "$total"

echo "blocks"
{ echo one; echo two; } | { read -r a; read -r b; echo "$b $a"; }
(echo in; echo err >&2) 2>&1 | sort

echo "tee"
seq 1 3 | tee copy | wc -l
cat copy
rm copy

echo "twenty stages"
echo 0 | for stage in 1; do
    cat | cat | cat | cat | cat | cat | cat | cat | cat | cat | cat | cat | cat | cat | cat |
        cat | cat | cat | sed "s/0/$stage/"
done

echo "binary zeros pass"
head -c 100000 /dev/zero | tr '\0' x | wc -c
printf 'a\0b' | od -c

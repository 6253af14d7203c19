# 2,000 forks one after the other, then forks of other kinds.

i=0
sum=0
while [ $i -lt 2000 ]; do
    (exit $((i % 7)))
    sum=$((sum + $?))
    i=$((i + 1))
done
echo $i $sum

i=0
sum=0
while [ $i -lt 200 ]; do
    sum=$((sum + $(echo $i)))
    i=$((i + 1))
done
echo $i $sum

i=0
while [ $i -lt 100 ]; do
    /bin/busybox test $i -ge 0 || echo failed
    i=$((i + 1))
done
echo $i

i=0
while [ $i -lt 50 ]; do
    echo $i | cat | cat >/dev/null
    i=$((i + 1))
done
echo $i

echo "each the child of the one before"
depth() { if [ "$1" -gt 0 ]; then (depth $(($1 - 1))); else echo bottom; fi; }
depth 40

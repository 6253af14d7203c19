# Files and directories: links, modes, times, renames, removal, find, sizes, descriptors, fifos.

mkdir work && cd work || exit 1

echo "names"
echo text >a
ln a hard
ln -s a soft
ln -s nowhere dangling
cat soft hard
stat -c '%n %h %s %F %a' a hard soft dangling
readlink soft
readlink dangling
readlink -f soft
[ a -ef hard ] && echo same
[ -L soft ] && [ ! -e dangling ] && [ -L dangling ] && echo links
mv a b
cat soft 2>/dev/null || echo broken
cat hard
rm hard
stat -c %h b
cat dangling 2>/dev/null || echo "cannot: $?"
echo through >dangling
cat nowhere
ln b nowhere 2>/dev/null || echo exists
rm nowhere dangling soft b
ls -A | wc -l

echo "directories"
mkdir -p one/two/three
rmdir one 2>/dev/null || echo not empty
mkdir one 2>/dev/null || echo exists
mv one uno
[ -d uno/two/three ] && echo moved
mv uno uno/two/ 2>/dev/null || echo not into itself
touch file
mv uno file 2>/dev/null || echo not onto a file
rmdir file 2>/dev/null || echo no directory
cd uno/two/three && pwd && cd ../../.. && pwd
cd -P . && cd nothing 2>/dev/null || echo no such directory
cp -r uno dos && find dos | sort
rm -r uno dos file

echo "modes and times"
touch m
chmod 640 m; stat -c %a m
chmod u+x,g-r,o+w m; stat -c %a m
chmod 4755 m; stat -c %a m
umask 077; touch n; mkdir nd; stat -c %a n nd; umask 022
touch -d '2001-02-03 04:05:06' m
stat -c %Y m
touch n
[ n -nt m ] && echo newer
cp -p m p; stat -c '%Y %a' p
chown 1:2 n && stat -c '%u:%g' n
rm -r m n nd p

echo "contents"
printf 0123456789 >f
dd if=f bs=1 skip=3 count=4 2>/dev/null; echo
printf XX | dd of=f bs=1 seek=4 conv=notrunc 2>/dev/null; cat f; echo
echo end >>f; cat f
truncate -s 5 f; cat f; echo
truncate -s 8 f; od -c f
dd if=/dev/zero of=hole bs=1 count=1 seek=1000000 2>/dev/null
stat -c %s hole; md5sum hole
dd if=hole bs=4096 skip=200 count=1 2>/dev/null | md5sum
: >f; [ -s f ] || echo empty
rm f hole

echo "find"
mkdir -p t/a/b t/c
for name in t/1.txt t/a/2.txt t/a/b/3.dat t/c/4.txt; do echo "$name" >"$name"; done
find t -type f | wc -l
find t -type d | sort
find t -name '*.txt' | sort
find t -type f -exec cat {} + | sort
find t -name '*.dat' -exec sh -c 'echo "found $1"' sh {} \;
find t -type f -size +1k | wc -l; find t -type f -size -2k | wc -l
find t -depth | tail -n 1
find t -type f | sort | xargs -n 2 echo
find t -type f | sort | xargs wc -c | tail -n 1
find t -name '*.txt' -exec rm {} +; find t -type f
rm -r t
before=$(find / -type f ! -path '/proc/*' ! -path '/sys/*' 2>/dev/null | wc -l)
mkdir t; for n in 1 2 3 4 5 6 7 8 9 10; do : >t/$n; done
after=$(find / -type f ! -path '/proc/*' ! -path '/sys/*' 2>/dev/null | wc -l)
echo $((after - before))
[ "$(find / -type f 2>/dev/null | wc -l)" -ge "$after" ] && echo all of it
rm -r t

echo "descriptors"
exec 3>out
echo three >&3
echo more >&3
exec 3>&-
cat out
exec 4<out
read -r line <&4; echo "$line"
read -r line <&4; echo "$line"
read -r line <&4 || echo end
exec 4<&-
echo closed 2>/dev/null >&4 || echo "bad descriptor"
exec 5<>out
read -r line <&5
echo MORE >&5
exec 5>&-
cat out
{ echo o; echo e >&2; } >out 2>&1; cat out
{ echo o; echo e >&2; } 2>&1 >/dev/null
set -C
echo no 2>/dev/null >out || echo protected
echo yes >|out
set +C
cat out
cat out missing 2>/dev/null; echo $?
rm out
(echo removed >gone; exec 6<gone; rm gone; cat <&6)

echo "devices"
echo x >/dev/null
head -c 3 /dev/zero | od -An -tx1
[ "$(head -c 16 /dev/urandom | wc -c)" = 16 ] && echo random
echo full 2>/dev/null >/dev/full || echo no space
[ -c /dev/null ] && echo character

echo "fifo"
mkfifo pipe
[ -p pipe ] && echo fifo
(seq 1 3 >pipe) &
cat pipe
wait
(cat pipe | md5sum >sum) &
seq 1 50000 >pipe
wait
cat sum
rm pipe sum

echo "long names and deep paths"
long=$(printf '%0255d' 0)
: >"$long" && ls | wc -c
touch "${long}x" 2>/dev/null || echo too long
rm "$long"
i=0
while [ $i -lt 40 ]; do mkdir deep && cd deep || break; i=$((i + 1)); done
pwd | wc -c
cd /root/work && find deep | wc -l && rm -r deep
i=0
ln -s loop loop
cat loop 2>/dev/null || echo loop
rm loop
cd .. && rmdir work && ls

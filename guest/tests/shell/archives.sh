# tar, gzip, bzip2 and cpio round trips; md5sum says whether everything came back.

mkdir -p tree/sub/deeper tree/empty
seq 1 20000 >tree/numbers
head -c 300000 /bin/busybox >tree/binary
: >tree/nothing
i=0
while [ $i -lt 50 ]; do
    echo "file $i" >tree/sub/file.$i
    i=$((i + 1))
done
head -c 1000000 /dev/zero >tree/sub/zeros
ln -s ../numbers tree/sub/link
ln tree/numbers tree/sub/hard
chmod 751 tree/sub/deeper
chmod 4711 tree/binary
touch -d '2010-01-02 03:04:05' tree/nothing

sums() { (cd "$1" && find . -type f ! -name binary | sort | xargs md5sum | md5sum); }
binary_is_same() { cmp "$1" "$2" && echo same binary; }
facts() { (cd "$1" && find . | sort | xargs stat -c '%n %a %F' | md5sum); }

echo "tar"
sums tree
facts tree
tar cf t.tar tree
tar tf t.tar | sort | md5sum
mkdir out
tar xf t.tar -C out
sums out/tree
facts out/tree
binary_is_same tree/binary out/tree/binary
readlink out/tree/sub/link
stat -c '%Y %a' out/tree/nothing
[ out/tree/numbers -ef out/tree/sub/hard ] && echo hard link
rm -r out

echo "tar through pipes"
mkdir out
tar cf - tree | (cd out && tar xf -)
sums out/tree
rm -r out

echo "gzip"
gzip -k t.tar
gzip -t t.tar.gz && echo intact
zcat t.tar.gz | cmp - t.tar && echo same
rm t.tar
gunzip t.tar.gz
mkdir out
tar xf t.tar -C out && sums out/tree
rm -r out
gzip -c <tree/numbers | gunzip | md5sum
md5sum <tree/numbers
gzip -c <tree/binary | gunzip -c | cmp - tree/binary && echo same
gzip -9 -c tree/sub/zeros | wc -c
echo garbage | gunzip 2>/dev/null || echo refused
gzip -c tree/numbers | head -c 1000 | gunzip >/dev/null 2>&1 || echo truncated

echo "tar z"
tar czf t.tgz tree
mkdir out
tar xzf t.tgz -C out && sums out/tree && facts out/tree
rm -r out t.tgz t.tar

echo "bzip2"
bzip2 -c tree/numbers | bunzip2 | md5sum

echo "cpio"
(cd tree && find . | sort | cpio -o -H newc 2>/dev/null) >t.cpio
mkdir out
(cd out && cpio -id 2>/dev/null <../t.cpio)
sums out
rm -r out t.cpio

echo "sums"
printf abc | md5sum
printf abc | sha1sum
printf abc | sha256sum
printf abc | sha512sum
(cd tree && md5sum numbers nothing >../sums && md5sum -c ../sums)
echo change >>tree/nothing
(cd tree && md5sum -c ../sums 2>/dev/null) || echo differs
rm -r tree sums
ls

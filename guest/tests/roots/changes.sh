# Changes of files and folders that lie in a root image. What is printed must be what it is in an ordinary folder.
cd data
say() { echo "== $*"; }
count() { stat -c '%n %h %s %A' "$@"; }

say read
cat text; ls -R . | head -40; find . | sort | md5sum; wc -c large; md5sum <large
say links
count one sub/two sub; cat sub/two
echo more >>sub/two; cat one; count one
ln one three; count one; rm sub/two; count one three
say appended
exec 3<text
echo second >>text
cat <&3
exec 3<&-
cat text
say truncated
exec 3<large 4>>large
: >large
wc -c <&3; echo x >&4; cat large
exec 3<&- 4<&-
say attributes
chmod 600 mode; count mode; chmod u+x mode; count mode; cat mode
touch -d '2001-02-03 04:05:06' mode; stat -c %Y mode
chmod 700 sub; count sub
say removed
rm text; ls text; echo "$?"; cat text; echo new >text; cat text; count text
rmdir sub; echo "$?"; rmdir deep; echo "$?"; rmdir deep/a/b/c; echo "$?"; ls deep/a/b | wc -l
rm -r deep; ls deep; echo "$?"; mkdir deep; ls -A deep; count deep; touch deep/again; ls deep
say renamed
mv sub moved; ls moved; count moved; cat moved/inner/leaf
mv moved/inner inner; cat inner/leaf; count . moved inner
echo over >over; mv over inner/leaf; cat inner/leaf
mv inner empty 2>/dev/null; echo "$?"; ls empty
mkdir full other; mv -T other full; echo "$?"; ls -d other full
mv -T full many; echo "$?"
mv link link2; readlink link2; cat link2
ln -s text link; cat link; rm link2
say counted
ls many | wc -l; rm many/1*; ls many | wc -l
for n in many/*; do echo "$n" >>"$n"; done; cat many/* | md5sum
touch many/new; ls many | sort | md5sum
say "at once"
for worker in 1 2 3 4; do
	(n=0; while [ $n -lt 40 ]; do echo "$worker $n" >>shared/all; cat shared/f$n >/dev/null; echo "$worker" >>shared/f$n; n=$((n + 1)); done) &
done
wait
wc -l <shared/all; sort shared/all | uniq | wc -l; cat shared/f* | sort | uniq -c | tr -s ' '
say everything
find . | sort | while read -r path; do stat -c '%n %h %A %F' "$path"; done
rm -r many shared moved inner empty other full 2>/dev/null; ls

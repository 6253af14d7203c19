# bash, coreutils, findutils, grep, sed, gawk and perl: pipelines, arrays, sorting, checksums, dates, archives
# deb: bash,coreutils,findutils,grep,sed,gawk,perl,tar,gzip,xz-utils,bzip2,diffutils,dash,mawk
set -e
cd /tmp
bash -c '
declare -A ages=([ada]=36 [alan]=41 [grace]=85)
for name in $(printf "%s\n" "${!ages[@]}" | sort); do echo "$name ${ages[$name]}"; done
echo $((2 ** 40)) ${BASH_VERSION%%.*} "$(echo {a..e}{1..3})"
mapfile -t lines < <(seq 5); echo "${#lines[@]} ${lines[*]: -2}"
coproc cat; echo through a coprocess >&${COPROC[1]}; read -r line <&${COPROC[0]}; echo "$line"
trap "echo got USR1" USR1; kill -USR1 $$
(exit 3) || echo "status $?"
shopt -s extglob
case foobar in foo@(bar|baz)) echo extended;; esac
'
mkdir -p tree/a/b tree/c
seq 20000 > tree/numbers
sort -R tree/numbers | sort -n --parallel=4 | cmp - tree/numbers && echo sorted
sha256sum tree/numbers; md5sum tree/numbers; cksum tree/numbers
split -l 7000 tree/numbers tree/c/part.; ls tree/c; wc -l tree/c/*
seq 1 3 30 | sort > one; seq 1 5 30 | sort > two; comm -12 one two; join one two | tr '\n' ' '; echo
date -u -d '2024-02-29 12:34:56 UTC + 1 year' '+%F %T %A %j'
numfmt --to=iec 123456789; factor 1234567890123; echo hello | base64; printf '%08.3f|%-6s|%x\n' 3.14159 ab 255
tac tree/numbers | head -3; shuf -i 1-10 --random-source=/dev/zero | sort -n | paste -sd,
find tree -type f -size +20k -printf '%P %s\n' | sort
find tree -name 'part.*' -print0 | sort -z | xargs -0 -P 4 -n 1 wc -c | sort
gawk 'BEGIN { printf "%.6f\n", atan2(0, -1) } { s += $1 * $1 } END { print s }' tree/numbers
sed -n -E 's/^([0-9])\1\1\1$/\1 four times/p' tree/numbers
grep -c 77 tree/numbers; grep -P '^(?=.*1)(?=.*2)(?=.*3)(?=.*4)\d{4}$' tree/numbers | wc -l
for z in gzip xz bzip2; do tar -c --owner=0 --group=0 --mtime=@0 --sort=name -f - tree | $z -c > t.$z; done
mkdir out; for z in gzip xz bzip2; do $z -dc t.$z | tar -x -C out; diff -r tree out/tree && echo $z same; rm -r out/tree; done
perl -e 'use strict; my %h; $h{length $_}++ for map { $_ ** 2 } 1..1000; print join(",", map { "$_:$h{$_}" } sort keys %h), "\n"'
perl -MDigest::SHA=sha1_hex -MPOSIX=floor -e 'print sha1_hex("abc"), " ", floor(-2.5), "\n"; my $p = fork // die; if (!$p) { exit 7 } waitpid $p, 0; print $? >> 8, "\n"'
perl -pe 's/(\d+)/$1*2/e' tree/numbers | tail -1

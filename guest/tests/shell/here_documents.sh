# Here-documents: expansion, quoting, tabs, sizes on both sides of a pipe's.

name=world
cat <<END
hello $name
$(echo substituted) $((1 + 1)) \$name `echo old`
END
cat <<'END'
hello $name $(echo no) \n
END
cat <<-END
	tabs
		at the start go
	END
cat <<END | tr a-z A-Z
into a pipeline
END
cat <<ONE - <<TWO
first
ONE
second
TWO
cat <<ONE; cat <<TWO
one
ONE
two
TWO

while read -r first rest; do
    echo "$rest $first"
done <<END
a b c
d e f
END

f() {
    cat <<END
in a function: $1
END
}
f argument
x=$(cat <<END
in a substitution
END
)
echo "$x"

echo "more than a pipe holds"
big=$(seq 1 20000)
md5sum <<END
$big
END
wc -c <<END
$big
END

echo "nobody reads it"
: <<END
$big
END
echo $?

echo "empty"
wc -c <<END
END
cat 3<<END <&3
by another descriptor
END

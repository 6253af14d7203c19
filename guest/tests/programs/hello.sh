# A native program as a command of the shell: arguments, pipes, redirection, status, background.

hello
hello one 'two words' ''
hello a b c | wc -l
hello piped | cat | cat
hello file >out; cat out
hello more >>out; cat out
hello >/dev/null; echo "status $?"
hello back & wait $!; echo "status $?"
(hello sub; exit 3); echo "status $?"
for i in 1 2 3 4 5 6 7 8; do hello $i; done
x=$(hello captured); echo "[$x]"
hello a b c | head -n 1
cp /bin/hello ./own && ./own copied
head -c 3000 /bin/hello >cut; chmod +x cut; ./cut 2>/dev/null || echo refused
exec hello last

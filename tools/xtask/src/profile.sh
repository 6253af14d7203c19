export PS1='\w \$ '
alias ll='ls -l'
case $- in *i*) cat <<'END'
This is Tessera: an operating system whose memory system is a library in each process.
Try    cat /proc/self/maps             the map of a process, as its own library keeps it
       grep free /proc/tessera/memory  free memory, to the page: what ends gives all of it back
       gcbarrier                       a native program that looks at its own page tables
Leave  with exit or Ctrl-D; Ctrl-A x switches the machine off.
END
esac

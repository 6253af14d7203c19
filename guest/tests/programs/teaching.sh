# The teaching programs of the book: a pager, a write barrier, a buffer pool.

pager
pager 16 4
gcbarrier
bufferpool
bufferpool 300

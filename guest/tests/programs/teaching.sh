# The teaching programs of the book: a pager, a write barrier, a buffer pool.
# timeout: 120

pager
pager 16 4
gcbarrier
bufferpool
bufferpool 300

//! Numbers of System V shared memory.

/// No key: a segment that is found by its id only.
pub const IPC_PRIVATE: i32 = 0;
/// Bytes of `struct shmid_ds`.
pub const SHMID_BYTES: usize = 112;

macro_rules! numbers {
    ($($name:ident = $value:literal)*) => { $(#[doc = stringify!($name)] pub const $name: u32 = $value;)* };
}
numbers! {
    IPC_RMID = 0
    IPC_SET = 1
    IPC_STAT = 2
    IPC_INFO = 3
    SHM_LOCK = 11
    SHM_UNLOCK = 12
    SHM_STAT = 13
    SHM_INFO = 14
    SHM_STAT_ANY = 15
    IPC_CREAT = 0o1000
    IPC_EXCL = 0o2000
    SHM_HUGETLB = 0o4000
    SHM_RDONLY = 0o10000
    SHM_RND = 0o20000
    SHM_REMAP = 0o40000
    SHM_EXEC = 0o100000
}

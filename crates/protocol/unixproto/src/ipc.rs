//! Numbers of System V shared memory, semaphores and messages.

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
    GETPID = 11
    GETVAL = 12
    GETALL = 13
    GETNCNT = 14
    GETZCNT = 15
    SETVAL = 16
    SETALL = 17
    SEM_STAT = 18
    SEM_INFO = 19
    SEM_STAT_ANY = 20
    IPC_NOWAIT = 0o4000
    SEM_UNDO = 0x1000
    MSG_STAT = 11
    MSG_INFO = 12
    MSG_STAT_ANY = 13
    MSG_NOERROR = 0o10000
    MSG_EXCEPT = 0o20000
    MSG_COPY = 0o40000
}

/// Bytes of `struct semid_ds`, and of `struct sembuf`.
pub const SEMID_BYTES: usize = 104;
/// Same.
pub const SEMBUF_BYTES: usize = 6;
/// Semaphores of a set (Linux: `SEMMSL`), operations of a call (`SEMOPM`), and the highest value (`SEMVMX`).
pub const SEMAPHORES_MOST: u32 = 4096;
/// Same.
pub const OPERATIONS_MOST: usize = 500;
/// Same.
pub const VALUE_MOST: i32 = 32767;

/// Bytes of `struct msqid_ds`, and of `struct msginfo`.
pub const MSQID_BYTES: usize = 120;
/// Same.
pub const MSGINFO_BYTES: usize = 32;
/// Bytes of a message (Linux: `MSGMAX`), and of all messages of a queue that nobody has changed (`MSGMNB`).
pub const MESSAGE_MOST: usize = 8192;
/// Same.
pub const QUEUE_BYTES_MOST: usize = 16384;

//! `execve`.

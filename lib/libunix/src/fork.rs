//! `fork` and its relatives.

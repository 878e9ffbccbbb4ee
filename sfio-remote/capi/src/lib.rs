//! SFIO for programs in C: the names of the paper, with 64-bit offsets and error returns. `[sfio §3]`
//!
//! | what | where |
//! |---|---|
//! | error codes, and the words for them | [`error`] |
//! | the process of the member that the program is | [`process`] |
//! | opening, creating, removing; reading and writing | [`file`], [`access`] |
//! | operations that run while the program does something else | [`request`] |
//! | groups of processes, and what they read and write together | [`group`] |
//! | error counters of the I/O nodes | [`counters`] |
//! | the caller's memory, borrowed for the time of a call | [`memory`] |
//!
//! The header `include/sfio.h` is written by cbindgen from these files.

#![allow(unreachable_pub, reason = "C sees the functions, whatever the modules are called")]
#![allow(unsafe_code, reason = "what C hands over are pointers; each use says what makes it sound")]

mod access;
mod counters;
mod error;
mod file;
mod group;
mod memory;
mod process;
mod request;

//! The Buffered Message Interface for programs in C: its names, constants and meaning over `io::message`. `[bmi]`
//!
//! | what | where |
//! |---|---|
//! | error codes, and the words for them | [`error`] |
//! | the messenger that all calls of the process share | [`library`] |
//! | how it begins and ends, and what it must know for that | [`process`], [`config`] |
//! | what is pending, and whose memory it has | [`operations`], [`memory`] |
//! | unexpected messages for which there was no memory | [`leftover`] |
//! | references to peers, and their names | [`addresses`], [`range`] |
//! | the functions of `include/bmi.h` | [`process`], [`context`], [`address`], [`post`], [`test`], [`info`] |

#![allow(unreachable_pub, reason = "C sees the functions, whatever the modules are called")]
#![allow(unsafe_code, reason = "what C hands over are pointers; each use says what makes it sound")]

mod address;
mod addresses;
mod config;
mod context;
mod error;
mod info;
mod leftover;
mod library;
mod memory;
mod operations;
mod post;
mod process;
mod range;
mod test;

//! Sockets, clocks and tasks: what drives the node on tokio (design §2).
#![allow(dead_code)] // Until the endpoint that uses them is here.

mod addresses;
mod control;
mod data;
#[cfg(test)]
mod testing;
mod tls;

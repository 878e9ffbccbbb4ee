//! What a child process is to be.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// What a child process is to be.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Job {
    Member(MemberJob),
    Competitor(CompetitorJob),
}

impl Job {
    /// In a word.
    pub(crate) fn role(&self) -> &'static str {
        match self {
            Job::Member(job) if !job.sends_to.is_empty() => "sender",
            Job::Member(job) if job.name.starts_with('r') => "relay",
            Job::Member(_) => "receiver",
            Job::Competitor(_) => "quinn",
        }
    }
}

/// A member of an overlay.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct MemberJob {
    pub(crate) overlay: String,
    pub(crate) name: String,
    /// The members to send to without end; for each a session with one stream.
    pub(crate) sends_to: Vec<String>,
    /// The config as TOML.
    pub(crate) config: String,
    /// The share of arriving datagrams that is thrown away.
    pub(crate) arrival_loss: f64,
    /// Whether the kernel may hand over many datagrams as one.
    pub(crate) gro: bool,
    /// Stop after so many bytes; none: never.
    pub(crate) bytes: Option<u64>,
}

/// One end of a QUIC connection by quinn, or of bare packets.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct CompetitorJob {
    pub(crate) end: End,
    pub(crate) payload: Payload,
    pub(crate) congestion: Congestion,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum End {
    SendsTo(SocketAddr),
    ReceivesAt(SocketAddr),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Payload {
    /// Over one connection.
    Quic(Quic),
    /// Packets like ours without a protocol.
    Bare,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Quic {
    Stream,
    Datagrams,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Congestion {
    Cubic,
    Bbr,
}

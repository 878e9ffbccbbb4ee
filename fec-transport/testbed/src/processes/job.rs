//! What a child process is to be.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// What a child process is to be.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Job {
    /// One of ours.
    Member(MemberJob),
    /// Somebody else, to compare with.
    Competitor(CompetitorJob),
    /// One of ours that sends or takes messages.
    Messages(MessagesJob),
}

impl Job {
    /// The name of the job's kind, for threads and tables.
    pub fn role(&self) -> &'static str {
        match self {
            Job::Member(job) if !job.sends_to.is_empty() => "sender",
            Job::Member(job) if job.name.starts_with('r') => "relay",
            Job::Member(_) => "receiver",
            Job::Competitor(_) => "quinn",
            Job::Messages(_) => "messages",
        }
    }
}

/// A member of an overlay.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct MemberJob {
    /// The text of the overlay file.
    pub overlay: String,
    /// Which member of it this process is.
    pub name: String,
    /// Further members that live in this process.
    pub beside: Vec<String>,
    /// The members to have a session with on which nothing is sent.
    pub idles_with: Vec<String>,
    /// The members to send to without end; for each a session with one stream.
    pub sends_to: Vec<String>,
    /// The config as TOML.
    pub config: String,
    /// The share of arriving datagrams that is thrown away.
    pub arrival_loss: f64,
    /// Whether the kernel may hand over many datagrams as one.
    pub gro: bool,
    /// Stop after so many bytes; none: never.
    pub bytes: Option<u64>,
    /// Bytes of the memory that what comes is copied into, again and again; 0: it is dropped where it is.
    pub memory: usize,
}

/// A member of an overlay that sends or takes messages without end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MessagesJob {
    /// The text of the overlay file.
    pub overlay: String,
    /// Which member of it this process is.
    pub name: String,
    /// The members to send to.
    pub sends_to: Vec<String>,
    /// The members that send here.
    pub takes_from: Vec<String>,
    /// Bytes of each message, more than travel with an envelope.
    pub bytes: usize,
    /// So many of them are posted with each peer at any time.
    pub ahead: usize,
}

/// One end of a QUIC connection by quinn, or of bare packets.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct CompetitorJob {
    /// Whether it sends or receives, and where.
    pub end: End,
    /// What is sent.
    pub payload: Payload,
    /// The rule by which a QUIC connection finds its rate.
    pub congestion: Congestion,
}

/// The two ends of what a competitor does.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum End {
    /// It sends to this address.
    SendsTo(SocketAddr),
    /// It receives at this address.
    ReceivesAt(SocketAddr),
}

/// What a competitor sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Payload {
    /// Over one connection.
    Quic(Quic),
    /// Packets like ours without a protocol.
    Bare,
}

/// How bytes travel over a QUIC connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Quic {
    /// As one stream: in order, nothing missing.
    Stream,
    /// As datagrams, which may be lost.
    Datagrams,
}

/// A congestion controller of quinn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Congestion {
    /// CUBIC [RFC 9438].
    Cubic,
    /// BBR as quinn has it.
    Bbr,
}

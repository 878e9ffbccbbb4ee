//! What the machine allows: packets like ours, one way and without a protocol.
//!
//! Each packet is copied, sealed, sent in runs (GSO), received in runs (GRO), opened and copied, and nothing else: no
//! rate, no repair, no order. With one thread on each side, as a session has for this work, no transport that does the
//! same to each packet can be faster here.

use std::io::IoSliceMut;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, anyhow};
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use super::competitor::SOCKET_BUFFER;

/// The bytes of a full packet of ours: what stays open, of which the seal covers the first ones, what is sealed before
/// the user data, these, and what sealing adds.
const OPEN: usize = 24;
const COVERED: usize = 8;
const HEADER: usize = 24;
const DATA: usize = 1_384;
const TAG: usize = 16;
const PACKET: usize = OPEN + HEADER + DATA + TAG;
/// Packets of a run.
const RUN: usize = 44;
/// Where user data comes from and goes to, longer than any cache next to a core.
const MEMORY: usize = (8 << 20) / DATA * DATA;
/// Buffers of one call that receives.
const BUFFERS: usize = 32;
const RECEIVE_BUFFER: usize = 65_536;

/// Sends runs to `to` for ever.
pub(crate) fn send(to: SocketAddr) -> Result<()> {
    let (socket, state) = open(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let (key, source) = (key()?, vec![7; MEMORY]);
    let mut run = vec![0; RUN * PACKET];
    for (number, data) in (0_u64..).zip(source.chunks_exact(DATA).cycle()) {
        let index = number as usize % RUN;
        let packet = &mut run[index * PACKET..][..PACKET];
        packet[..8].copy_from_slice(&number.to_be_bytes());
        let (open, sealed) = packet.split_at_mut(OPEN);
        let (body, tag) = sealed.split_at_mut(HEADER + DATA);
        body[HEADER..].copy_from_slice(data);
        let seal = key.seal_in_place_separate_tag(nonce(number), Aad::from(&open[..COVERED]), body);
        tag.copy_from_slice(seal.map_err(|_| anyhow!("sealing"))?.as_ref());
        if index + 1 == RUN {
            let contents = &run[..];
            let transmit =
                Transmit { destination: to, ecn: None, contents, segment_size: Some(PACKET), src_ip: None };
            // What the kernel refuses is lost, as on a wire.
            let _ = state.try_send((&socket).into(), &transmit);
        }
    }
    Ok(())
}

/// Counts the user data that comes in whole.
pub(crate) fn receive(at: SocketAddr, received: &Arc<AtomicU64>) -> Result<()> {
    let (socket, state) = open(at)?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    let (key, mut sink) = (key()?, vec![0; MEMORY]);
    let mut buffers = vec![0; BUFFERS * RECEIVE_BUFFER];
    let mut written = 0;
    loop {
        let mut metas = [RecvMeta::default(); BUFFERS];
        let mut slices: Vec<_> = buffers.chunks_exact_mut(RECEIVE_BUFFER).map(IoSliceMut::new).collect();
        let Ok(filled) = state.recv((&socket).into(), &mut slices, &mut metas) else { continue };
        for (buffer, meta) in buffers.chunks_exact_mut(RECEIVE_BUFFER).zip(&metas[..filled]) {
            for packet in buffer[..meta.len].chunks_exact_mut(meta.stride.max(PACKET)) {
                let number = u64::from_be_bytes(packet[..8].try_into()?);
                let (open, sealed) = packet.split_at_mut(OPEN);
                let body = key.open_in_place(nonce(number), Aad::from(&open[..COVERED]), sealed);
                let body = body.map_err(|_| anyhow!("packet {number} is damaged"))?;
                sink[written..][..DATA].copy_from_slice(&body[HEADER..]);
                written = (written + DATA) % MEMORY;
                received.fetch_add(DATA as u64, Ordering::Relaxed);
            }
        }
    }
}

fn open(at: SocketAddr) -> Result<(UdpSocket, UdpSocketState)> {
    let socket = UdpSocket::bind(at)?;
    let state = UdpSocketState::new((&socket).into())?;
    // quinn-udp makes its sockets non-blocking; these threads have nothing else to do than to wait.
    socket.set_nonblocking(false)?;
    state.set_send_buffer_size((&socket).into(), SOCKET_BUFFER)?;
    state.set_recv_buffer_size((&socket).into(), SOCKET_BUFFER)?;
    Ok((socket, state))
}

fn key() -> Result<LessSafeKey> {
    Ok(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &[7; 32]).map_err(|_| anyhow!("a key"))?))
}

fn nonce(number: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

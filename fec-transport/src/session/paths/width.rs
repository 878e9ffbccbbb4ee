//! Whether a path carries packets as large as the session would like to send.
//!
//! Tunnels, PPPoE, mobile networks and clouds carry less than the 1,500 bytes of an Ethernet, and what is larger is
//! dropped without a word. So a path counts as narrow until a *wide* probe, padded to the size of a full packet, has
//! come back over it [RFC 8899], and a session with a narrow path sends symbols of [`NARROW_SYMBOL`] bytes.

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::Time;

/// The bytes of symbols that every path carries: with all headers, those of IPv6 included, the 1,280 bytes that each
/// link on the Internet has to carry [RFC 8200 §5].
pub(crate) const NARROW_SYMBOL: usize = 1_168;
/// A path that carries other packets, but not so many wide probes in a row, has become narrow.
const MISSED: u32 = 4;
/// After so many, full packets that wait for it wait for nothing.
const SURELY_MISSED: u32 = 10;
/// Wide probes whose echo is still recognised.
const MAX_AWAITED: usize = 16;
/// The time between two wide probes doubles, up to this multiple of the first.
const LONGEST_INTERVAL: u32 = 64;

/// What is known of the packets that a path carries.
#[derive(Debug)]
pub(super) struct Width {
    is_wide: bool,
    /// When the next wide probe is sent, if any.
    due: Option<Time>,
    /// The time until the one after it, as a multiple of the first.
    interval: u32,
    /// The wide probes since the last one that came back.
    awaited: VecDeque<Awaited>,
    /// How many of them were lost, although the path carried what left later.
    missed: u32,
    /// The bytes of a full packet, IP header included, once one was asked for.
    full: Option<u32>,
}

/// A wide probe that has not come back.
#[derive(Debug, Clone, Copy)]
struct Awaited {
    token: u64,
    sent: Time,
    is_missed: bool,
}

impl Width {
    pub(super) fn unknown(now: Time) -> Width {
        Width { is_wide: false, due: Some(now), interval: 1, awaited: VecDeque::new(), missed: 0, full: None }
    }

    pub(super) fn is_wide(&self) -> bool {
        self.is_wide
    }

    /// Whether it was asked so often in vain that full packets which wait for it wait for nothing.
    pub(super) fn is_surely_narrow(&self) -> bool {
        self.missed >= SURELY_MISSED
    }

    /// When the next wide probe is sent.
    pub(super) fn due(&self) -> Option<Time> {
        self.due
    }

    /// Asks at once: the packets go another way, perhaps. What was known counts until it is found to be wrong.
    pub(super) fn ask(&mut self, now: Time) {
        self.due = Some(now);
    }

    /// Asks no more until it is told to.
    pub(super) fn rest(&mut self) {
        self.due = None;
    }

    /// A wide probe of that many bytes, IP header included, leaves; the next one follows after `interval`, or after a
    /// multiple of it.
    pub(super) fn sent(&mut self, now: Time, token: u64, full: u32, interval: Duration) {
        self.full = Some(full);
        if self.awaited.len() == MAX_AWAITED {
            self.awaited.pop_front();
        }
        self.awaited.push_back(Awaited { token, sent: now, is_missed: false });
        self.due = Some(now + interval * self.interval);
        self.interval = (2 * self.interval).min(LONGEST_INTERVAL);
    }

    /// An echo came: gives when its probe left, if it was a wide one that waits for it.
    pub(super) fn on_echo(&mut self, token: u64) -> Option<Time> {
        let sent = self.awaited.iter().find(|awaited| awaited.token == token)?.sent;
        self.found_wide();
        Some(sent)
    }

    /// A packet of so many bytes, IP header included, has arrived that left at that time.
    pub(super) fn note_arrival(&mut self, departed: Time, bytes: u32) {
        if self.awaited.is_empty() {
            return;
        }
        if self.full.is_some_and(|full| bytes >= full) {
            return self.found_wide();
        }
        // Each packet that came through speaks against one wide probe, because chance has lost many of both kinds,
        // perhaps.
        if let Some(awaited) = self.awaited.iter_mut().find(|it| it.sent < departed && !it.is_missed) {
            awaited.is_missed = true;
            self.missed += 1;
        }
        self.is_wide &= self.missed < MISSED;
    }

    fn found_wide(&mut self) {
        (self.is_wide, self.due, self.interval, self.missed) = (true, None, 1, 0);
        self.awaited.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::session::run::packet_size;
    use crate::wire::IP_UDP_HEADERS;
    use crate::wire::hop::{AEAD_TAG, HOP_HEADER};

    const INTERVAL: Duration = Duration::from_millis(250);
    const FULL: u32 = 1_500;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    /// docs/decisions/packet-size.md has why.
    #[test]
    fn full_packets_fit_an_ethernet_with_ipv6_and_pppoe_with_ipv4_and_are_whole_blocks_of_the_cipher() {
        let packet = packet_size(Config::default().coding.symbol_size);
        // The header of IPv6 is longer by 20 bytes.
        let (ipv4, ipv6) = (packet + IP_UDP_HEADERS, packet + IP_UDP_HEADERS + 20);
        assert!(ipv4 <= 1_492 && ipv6 <= 1_500, "{ipv4} and {ipv6} bytes");
        let sealed = packet - HOP_HEADER - AEAD_TAG;
        assert_eq!(sealed % 16, 0, "{sealed} bytes");
    }

    /// A path over which a wide probe has come back.
    fn wide() -> Width {
        let mut width = Width::unknown(at(0));
        width.sent(at(0), 1, FULL, INTERVAL);
        width.on_echo(1);
        width
    }

    /// Sends wide probes whenever one is due, none of which comes back; gives when they left, in ms.
    fn ask_in_vain(width: &mut Width, times: u64) -> Vec<u64> {
        let ask = |token| {
            let due = width.due().expect("nothing has come back");
            width.sent(due, token, FULL, INTERVAL);
            due.as_micros() / 1_000
        };
        (0..times).map(ask).collect()
    }

    #[test]
    fn a_path_is_narrow_until_a_wide_probe_comes_back_and_is_asked_ever_more_rarely() {
        let mut width = Width::unknown(at(0));
        assert_eq!(ask_in_vain(&mut width, 9), [0, 250, 750, 1_750, 3_750, 7_750, 15_750, 31_750, 47_750]);
        assert!(!width.is_wide());
        assert_eq!(width.on_echo(8), Some(at(47_750)));
        assert!(width.is_wide() && width.due().is_none());
    }

    #[test]
    fn a_wide_path_counts_as_narrow_once_it_has_carried_others_and_not_four_wide_probes() {
        let mut width = wide();
        width.ask(at(5_000));
        ask_in_vain(&mut width, 12);
        assert!(width.is_wide(), "nothing is heard of anything: it may be dead");
        (0..5).for_each(|_| width.note_arrival(at(5_300), 100));
        assert!(width.is_wide(), "two of them left before what has arrived");
        (0..2).for_each(|_| width.note_arrival(at(200_000), 100));
        assert!(!width.is_wide() && !width.is_surely_narrow());
        (0..6).for_each(|_| width.note_arrival(at(200_000), 100));
        assert!(width.is_surely_narrow());
    }

    #[test]
    fn a_full_packet_that_arrives_tells_as_much_as_an_echo() {
        let mut width = Width::unknown(at(0));
        ask_in_vain(&mut width, 3);
        width.note_arrival(at(100), FULL - 1);
        assert!(!width.is_wide());
        width.note_arrival(at(100), FULL);
        assert!(width.is_wide() && width.due().is_none());
    }
}

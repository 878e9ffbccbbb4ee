//! Who sits on a link: one who records what goes by, and those who send copies of it ahead.

use crate::overlay::MemberId;

/// All who sit on links.
#[derive(Debug, Default)]
pub(super) struct Onlookers {
    /// Datagrams that were recorded on their way from one member to another.
    tap: Option<(MemberId, MemberId, Vec<Vec<u8>>)>,
    bystanders: Vec<Bystander>,
}

/// Somebody who sends a copy of each datagram ahead of it.
#[derive(Debug)]
struct Bystander {
    from: MemberId,
    to: MemberId,
    forge: fn(&[u8]) -> Vec<u8>,
}

impl Onlookers {
    pub(super) fn tap(&mut self, from: MemberId, to: MemberId) {
        self.tap = Some((from, to, Vec::new()));
    }

    pub(super) fn take_tapped(&mut self) -> Vec<Vec<u8>> {
        self.tap.take().map(|(_, _, datagrams)| datagrams).unwrap_or_default()
    }

    pub(super) fn precede(&mut self, from: MemberId, to: MemberId, forge: fn(&[u8]) -> Vec<u8>) {
        self.bystanders.push(Bystander { from, to, forge });
    }

    /// A datagram goes by; gives what comes ahead of it.
    pub(super) fn see(&mut self, from: MemberId, to: MemberId, datagram: &[u8]) -> Vec<Vec<u8>> {
        if let Some((tapped_from, tapped_to, datagrams)) = &mut self.tap
            && (*tapped_from, *tapped_to) == (from, to)
        {
            datagrams.push(datagram.to_vec());
        }
        let theirs = self.bystanders.iter().filter(|it| (it.from, it.to) == (from, to));
        theirs.map(|bystander| (bystander.forge)(datagram)).collect()
    }
}

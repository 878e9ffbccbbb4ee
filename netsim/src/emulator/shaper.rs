//! One direction of an emulated link: the link model, and the packets that are on it.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;

use crate::agenda::Agenda;
use crate::link::{Link, LinkCounters, LinkModel, Passage, Transit};

/// Holds each packet until the model lets it arrive. `E` says where a packet leaves.
///
/// What it holds is bounded by the model: its queue, and its rate times its delay.
#[derive(Debug)]
pub(super) struct Shaper<E> {
    link: Link,
    rng: ChaCha8Rng,
    on_the_way: Agenda<(Transit, Vec<u8>, E)>,
}

impl<E: Clone> Shaper<E> {
    pub(super) fn new(model: LinkModel, rng: ChaCha8Rng) -> Self {
        Self { link: Link::new(model), rng, on_the_way: Agenda::new() }
    }

    /// A packet has come in at `now`. Only one that will arrive is copied.
    pub(super) fn offer(&mut self, now: Duration, packet: &[u8], exit: impl FnOnce() -> E) {
        if let Ok(Passage { transit, copy }) = self.link.offer(now, packet.len(), &mut self.rng) {
            let exit = exit();
            if let Some(copy) = copy {
                self.put_on_the_way(copy, packet, exit.clone());
            }
            self.put_on_the_way(transit, packet, exit);
        }
    }

    fn put_on_the_way(&mut self, transit: Transit, packet: &[u8], exit: E) {
        let mut packet = packet.to_vec();
        transit.corrupt(&mut packet);
        self.on_the_way.add(transit.arrives_at, (transit, packet, exit));
    }

    /// Takes the next packet that has arrived by `now`, with its exit.
    pub(super) fn take_arrived(&mut self, now: Duration) -> Option<(Vec<u8>, E)> {
        while let Some((_, (transit, packet, exit))) = self.on_the_way.take_due(now) {
            if self.link.deliver(transit) {
                return Some((packet, exit));
            }
        }
        None
    }

    pub(super) fn kill(&mut self) {
        self.link.set_down();
    }

    pub(super) fn restore(&mut self) {
        self.link.set_up();
    }

    pub(super) fn set_model(&mut self, model: LinkModel) {
        self.link.set_model(model);
    }

    pub(super) fn is_up(&self) -> bool {
        self.link.is_up()
    }

    pub(super) fn counters(&self) -> LinkCounters {
        *self.link.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::random_stream;
    use crate::units::Rate;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// One byte takes 1 ms, then 5 ms of delay.
    fn slow() -> Shaper<u8> {
        let model = LinkModel { header_bytes: 0, ..LinkModel::new(Rate::from_bits(8_000), ms(5)) };
        Shaper::new(model, random_stream(1, &[]))
    }

    #[test]
    fn packets_leave_when_due_by_their_exits() {
        let mut shaper = slow();
        shaper.offer(ms(0), b"xy", || 1);
        shaper.offer(ms(0), b"z", || 2);
        assert_eq!(shaper.take_arrived(ms(6)), None);
        assert_eq!(shaper.take_arrived(ms(7)), Some((b"xy".to_vec(), 1)));
        assert_eq!(shaper.take_arrived(ms(7)), None);
        assert_eq!(shaper.take_arrived(ms(100)), Some((b"z".to_vec(), 2)));
    }

    #[test]
    fn a_kill_takes_what_is_on_the_way_even_when_the_link_is_back_in_time() {
        let mut shaper = slow();
        shaper.offer(ms(0), b"x", || 1);
        shaper.kill();
        shaper.offer(ms(1), b"x", || 1);
        shaper.restore();
        assert_eq!(shaper.take_arrived(ms(100)), None);
        assert_eq!(shaper.counters().dropped_down, 2);
    }
}

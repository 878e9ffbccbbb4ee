//! How the handshakes of later epochs travel: as packets of the session, beside the data.

use super::Session;
use super::egress::seal;
use super::epochs::BadRenewal;
use super::path::PathId;
use crate::overlay::Peer;
use crate::time::Time;
use crate::wire::packet::Renewal;

impl Session {
    /// The next message of a handshake, if one is due.
    pub(super) fn poll_renewal(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Peer> {
        let id = match self.epochs.take_owed() {
            Some(path) => path,
            None => self.ask(now)?,
        };
        let path = self.paths.iter_mut().find(|path| path.id == id)?;
        Some(seal(now, path, self.epochs.seal(), false, out, |_, out| self.epochs.emit(out)))
    }

    /// Asks for new keys if it is time; gives the path for the question: another one each time, so that no path that
    /// carries nothing can hold it up.
    fn ask(&mut self, now: Time) -> Option<PathId> {
        self.asks_at().filter(|at| *at <= now)?;
        let tries = self.epochs.tries();
        let living = self.paths.iter().filter(|path| path.is_live());
        let path = living.clone().nth(tries % living.count().max(1))?;
        let (id, pause) = (path.id, path.loss_timeout());
        self.epochs.ask(now, pause);
        Some(id)
    }

    /// When [`poll_renewal`](Self::poll_renewal) has something to send.
    pub(super) fn renewal_at(&self, now: Time) -> Option<Time> {
        if self.epochs.owes_answer() { Some(now) } else { self.asks_at() }
    }

    fn asks_at(&self) -> Option<Time> {
        self.epochs.asks_at().filter(|_| self.paths.iter().any(|path| path.is_live()))
    }

    pub(super) fn on_renewal(&mut self, path: PathId, renewal: &Renewal<'_>) -> Result<(), BadRenewal> {
        self.epochs.on_question(path, renewal)
    }

    pub(super) fn on_renewal_answer(&mut self, now: Time, renewal: &Renewal<'_>) -> Result<(), BadRenewal> {
        self.epochs.on_answer(now, renewal)
    }
}

//! A block on its way to the peer.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::{Geometry, Source, Stock};
use crate::session::code::{ReedSolomon, code};
use crate::session::paths::PathId;
use crate::session::run::Symbols;
use crate::session::stream::Class;
use crate::time::Time;
use crate::wire::symbol::{BlockHeader, Codec};

/// A symbol that follows another one of the block on its path joins that one's flight if the flight is among the last
/// so many.
const MERGED_FLIGHTS: usize = 16;

/// A block on its way to the peer; it keeps its source until the peer has it.
#[derive(Debug)]
pub(crate) struct SendBlock {
    header: BlockHeader,
    class: Class,
    formed: Time,
    source: Source,
    geometry: Geometry,
    encoding_ids: usize,
    stock: Stock,
    /// The encoding id of the next symbol: first the source symbols, then repair symbols.
    next_encoding_id: usize,
    /// Whether all symbols were sent, and are sent again from the first one on.
    is_used_up: bool,
    /// First sending: how many symbols each path still has to carry.
    quotas: Vec<(PathId, u16)>,
    /// Symbols that were taken out of quotas or debts and are about to be sent.
    chosen: usize,
    /// Repair symbols that were decided on and not yet sent; any path may carry them.
    owed: u16,
    flights: Vec<Flight>,
    /// Which packets have carried which symbols.
    carried: Vec<Carried>,
    /// Encoding ids of symbols that are taken for lost because nothing was heard of them.
    given_up: BTreeSet<u16>,
    /// How many independent symbols the peer is known to have.
    rank: usize,
    /// How often the block was repaired.
    repairs: u8,
}

/// Symbols of one block with consecutive packet numbers on one path.
#[derive(Debug, Clone, Copy)]
struct Flight {
    path: PathId,
    first: u64,
    last: u64,
    sent: Time,
}

/// Symbols with consecutive encoding ids that left in consecutive packets of one path.
#[derive(Debug, Clone, Copy)]
struct Carried {
    path: PathId,
    number: u64,
    encoding_id: u16,
    count: u32,
}

/// What is known of the packets of a flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlightFate {
    /// They have arrived or never will.
    Over,
    /// The packets up to this number have arrived or never will.
    KnownUpTo(u64),
    /// Nothing.
    Flying,
}

impl SendBlock {
    /// A block with the geometry that belongs to its length; `source` are its K symbols.
    pub(crate) fn new(
        header: BlockHeader,
        geometry: Geometry,
        source: Source,
        class: Class,
        now: Time,
    ) -> SendBlock {
        debug_assert_eq!(source.len(), geometry.source_symbols * geometry.symbol_size);
        SendBlock {
            header,
            class,
            formed: now,
            source,
            encoding_ids: code(geometry.codec, geometry.source_symbols).encoding_ids(),
            geometry,
            stock: Stock::default(),
            next_encoding_id: 0,
            is_used_up: false,
            quotas: Vec::new(),
            chosen: 0,
            owed: 0,
            flights: Vec::new(),
            carried: Vec::new(),
            given_up: BTreeSet::new(),
            rank: 0,
            repairs: 0,
        }
    }

    pub(crate) fn header(&self) -> BlockHeader {
        self.header
    }

    pub(crate) fn class(&self) -> Class {
        self.class
    }

    /// When it was formed.
    pub(crate) fn formed(&self) -> Time {
        self.formed
    }

    /// How often it was repaired.
    pub(crate) fn repairs(&self) -> u8 {
        self.repairs
    }

    /// Whether it was repaired at least once.
    pub(crate) fn is_repaired(&self) -> bool {
        self.repairs > 0
    }

    /// Whether any repair symbols are owed.
    pub(crate) fn owes(&self) -> bool {
        self.owed > 0
    }

    #[cfg(test)]
    pub(crate) fn quotas(&self) -> &[(PathId, u16)] {
        &self.quotas
    }

    /// Each path is to carry so many symbols of the first sending.
    pub(crate) fn share_out(&mut self, quotas: Vec<(PathId, u16)>) {
        self.quotas = quotas;
    }

    /// So many more repair symbols are owed; any path may carry them.
    pub(crate) fn owe(&mut self, symbols: u16) {
        self.owed = self.owed.saturating_add(symbols);
    }

    /// It is repaired once more, with so many symbols: with those that were never sent, then with those that are taken
    /// for lost.
    ///
    /// Where there are fewer, all source symbols are sent again: nobody knows which ones of the others the peer lacks.
    pub(crate) fn repair(&mut self, symbols: u16) {
        let (left, all) = (self.symbols_left(), self.geometry.source_symbols);
        let again = all > 1 && usize::from(symbols) > left;
        self.owe(if again { symbols.max((left + all) as u16) } else { symbols });
        self.repairs = self.repairs.saturating_add(1);
    }

    /// How many symbols there are that the peer has not got, as far as is known, and that are not about to be sent.
    fn symbols_left(&self) -> usize {
        let never_sent = if self.is_used_up { 0 } else { self.encoding_ids - self.next_encoding_id };
        let about_to_be = self.chosen + self.unsent() + usize::from(self.owed);
        (never_sent + self.given_up.len()).saturating_sub(about_to_be)
    }

    /// K.
    pub(crate) fn source_symbols(&self) -> usize {
        self.geometry.source_symbols
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The source symbols, for whoever makes the repair symbols elsewhere.
    pub(crate) fn source(&self) -> Bytes {
        self.source.contiguous()
    }

    /// The source lies in memory of its own from now on: whoever has written it wants his memory back.
    pub(crate) fn detach(&mut self) {
        self.source.detach();
    }

    /// Bytes of the padded source.
    pub(crate) fn source_bytes(&self) -> usize {
        self.source.len()
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        self.source.len() + self.stock.memory()
    }

    /// The encoding id of the first repair symbol that is still to be sent, and how many there are.
    pub(crate) fn unsent_repairs(&self) -> (usize, usize) {
        let unsent = self.chosen + self.unsent() + usize::from(self.owed);
        let first = self.next_encoding_id.max(self.geometry.source_symbols);
        (first, (self.next_encoding_id + unsent).saturating_sub(first))
    }

    /// Draws the next symbol: gives its encoding id and whether it repeats or repairs.
    pub(crate) fn encode_next(&mut self) -> (u16, bool) {
        let given_up = if self.is_used_up { self.given_up.pop_first() } else { None };
        let id = given_up.unwrap_or_else(|| self.next_in_turn());
        self.chosen = self.chosen.saturating_sub(1);
        (id, usize::from(id) >= self.geometry.source_symbols || self.repairs > 0)
    }

    fn next_in_turn(&mut self) -> u16 {
        let id = self.next_encoding_id;
        self.next_encoding_id = (id + 1) % self.encoding_ids;
        self.is_used_up |= self.next_encoding_id == 0;
        id as u16
    }

    /// Appends the `count` symbols of the encoding ids from `first` on. Repair symbols are made here, unless they are
    /// RaptorQ's and [`supplied`](Self::supplied) brought them.
    pub(crate) fn encode(&mut self, first: u16, count: usize, symbols: &mut Vec<Symbols>) {
        let Geometry { symbol_size: size, source_symbols, .. } = self.geometry;
        let (mut id, mut left) = (usize::from(first), count);
        while left > 0 {
            let (count, bytes) = if id < source_symbols {
                self.source.run(id, left.min(source_symbols - id))
            } else {
                self.repair_run(id, left.min(self.encoding_ids - id))
            };
            symbols.push(Symbols { count, size, bytes });
            (id, left) = ((id + count) % self.encoding_ids, left - count);
        }
    }

    /// Repair symbols from the encoding id `first` on: up to `count`, and how many they are.
    fn repair_run(&mut self, first: usize, count: usize) -> (usize, Bytes) {
        match (self.geometry.codec, self.geometry.source_symbols) {
            // Each is the block itself.
            (Codec::ReedSolomon, 1) => (1, self.source.contiguous()),
            (Codec::ReedSolomon, _) => {
                let mut symbols = Vec::new();
                ReedSolomon::append_repair(first, count, &self.source.symbols(), &mut symbols);
                (count, symbols.into())
            }
            (Codec::RaptorQ, _) => (count, self.stocked_symbols(first, count)),
        }
    }

    fn stocked_symbols(&mut self, first: usize, count: usize) -> Bytes {
        if let Some(symbols) = self.stock.symbols(first, count) {
            return symbols;
        }
        let (_, unsent) = self.unsent_repairs();
        self.stock = Stock::make(self.geometry, &self.source.contiguous(), first, count + unsent);
        self.stock.symbols(first, count).expect("as many were made")
    }

    /// Takes repair symbols that were made elsewhere.
    pub(crate) fn supplied(&mut self, stock: Stock) {
        self.stock = stock;
    }

    /// Notes that a symbol left on `path` as packet `number`.
    pub(crate) fn sent(&mut self, encoding_id: u16, path: PathId, number: u64, now: Time) {
        match self.carried.last_mut().filter(|run| run.is_followed_by(encoding_id, path, number)) {
            Some(run) => run.count += 1,
            None => self.carried.push(Carried { path, number, encoding_id, count: 1 }),
        }
        let mut latest = self.flights.iter_mut().rev().take(MERGED_FLIGHTS);
        match latest.find(|flight| flight.path == path && flight.last + 1 == number) {
            Some(flight) => (flight.last, flight.sent) = (number, now),
            None => self.flights.push(Flight { path, first: number, last: number, sent: now }),
        }
    }

    /// How many symbols of the first sending have not been sent.
    pub(crate) fn unsent(&self) -> usize {
        self.quotas.iter().map(|(_, count)| usize::from(*count)).sum()
    }

    /// How many symbols of the first sending `path` still has to carry.
    pub(crate) fn quota(&self, path: PathId) -> usize {
        self.quotas.iter().filter(|(id, _)| *id == path).map(|(_, count)| usize::from(*count)).sum()
    }

    /// Whether `path`, or any path, has a quota left.
    pub(crate) fn has_quota(&self, path: Option<PathId>) -> bool {
        self.quotas.iter().any(|(id, count)| *count > 0 && path.is_none_or(|wanted| wanted == *id))
    }

    /// Takes up to `most` symbols out of what is owed; gives how many.
    pub(crate) fn take_owed(&mut self, most: usize) -> usize {
        let count = usize::from(self.owed).min(most);
        self.owed -= count as u16;
        self.chosen += count;
        count
    }

    /// Takes up to `most` symbols out of the quota of `path`, or of any path that has one; gives how many.
    pub(crate) fn take_quota(&mut self, path: Option<PathId>, most: usize) -> usize {
        let mut fitting = self.quotas.iter_mut();
        let fits = |(id, count): &&mut (PathId, u16)| *count > 0 && path.is_none_or(|wanted| wanted == *id);
        let Some((_, left)) = fitting.find(fits) else { return 0 };
        let count = usize::from(*left).min(most);
        *left -= count as u16;
        self.chosen += count;
        count
    }

    /// Nothing more goes over `path`, and what went over it counts as lost; gives what it was still to carry.
    pub(crate) fn forget_path(&mut self, path: PathId) -> u16 {
        let dropped = self.quotas.iter().filter(|(id, _)| *id == path).map(|(_, count)| count).sum();
        self.quotas.retain(|(id, _)| *id != path);
        let (over, flying) = self.flights.iter().partition(|flight| flight.path == path);
        self.flights = flying;
        self.give_up(over);
        dropped
    }

    /// Nothing was heard of the symbols in these flights, nor will be.
    fn give_up(&mut self, flights: Vec<Flight>) {
        for flight in flights {
            let over = self.carried.iter().filter(|run| run.path == flight.path);
            self.given_up.extend(over.flat_map(|run| run.within(flight.first, flight.last)));
        }
    }

    /// Notes the rank that the peer reported last. It falls when K symbols turn out not to determine the block: the
    /// peer reports K while it decodes, and less when that was in vain.
    pub(crate) fn reported(&mut self, rank: u16) {
        self.rank = usize::from(rank).min(self.geometry.source_symbols);
    }

    /// Forgets the flights that have ended, as far as `fate(path, time of sending)` knows.
    pub(crate) fn settle(&mut self, fate: impl Fn(PathId, Time) -> FlightFate) {
        let mut over = Vec::new();
        self.flights.retain_mut(|flight| match fate(flight.path, flight.sent) {
            FlightFate::Over => {
                over.push(*flight);
                false
            }
            FlightFate::Flying => true,
            FlightFate::KnownUpTo(number) => {
                flight.first = flight.first.max(number + 1);
                flight.first <= flight.last
            }
        });
        self.give_up(over);
    }

    /// How many more symbols the peer needs beyond what is on the way or about to be.
    pub(crate) fn deficit(&self) -> usize {
        let flying: u64 = self.flights.iter().map(|flight| flight.last - flight.first + 1).sum();
        let coming = flying as usize + self.unsent() + usize::from(self.owed);
        self.geometry.source_symbols.saturating_sub(self.rank + coming)
    }
}

impl Carried {
    /// Whether the symbol that left on `path` as packet `number` is the next one.
    fn is_followed_by(&self, encoding_id: u16, path: PathId, number: u64) -> bool {
        let next_id = u32::from(self.encoding_id) + self.count;
        (self.path, self.number + u64::from(self.count), next_id) == (path, number, encoding_id.into())
    }

    /// The encoding ids in the packets from `first` to `last`.
    fn within(&self, first: u64, last: u64) -> impl Iterator<Item = u16> + use<> {
        let packets = (self.number..).zip(self.encoding_id..=u16::MAX).take(self.count as usize);
        packets.filter(move |(number, _)| (first..=last).contains(number)).map(|(_, encoding_id)| encoding_id)
    }
}

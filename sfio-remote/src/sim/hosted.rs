//! A member's application together with its disk and its processor, which take their time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fec_transport::node::Node;
use fec_transport::{Application, Event, Time};

use super::cluster::{Disk, Host};
use super::codecs::CodecModel;
use super::models::{DiskModel, ProcessorModel, bytes_of};
use crate::application::{Command, Outcome, SfioApplication};
use crate::client::Completion;
use crate::store::{DiskOperation, DiskResult};

/// An application, and what it asks of its computer.
pub struct Hosted<A = SfioApplication> {
    application: A,
    disk: Disk,
    models: (DiskModel, ProcessorModel),
    codecs: CodecModel,
    disk_free_at: Time,
    processor_free_at: Time,
    /// What the application is told later, by time and then in the order in which it came.
    later: BTreeMap<(Time, u64), Command>,
    next: u64,
    completions: VecDeque<Completion>,
}

impl<A: Host> Hosted<A> {
    pub(super) fn new(application: A, disk: Disk, models: (DiskModel, ProcessorModel)) -> Hosted<A> {
        Hosted {
            application,
            disk,
            models,
            codecs: CodecModel::default(),
            disk_free_at: Time::ZERO,
            processor_free_at: Time::ZERO,
            later: BTreeMap::new(),
            next: 0,
            completions: VecDeque::new(),
        }
    }

    /// The application.
    pub fn application(&self) -> &A {
        &self.application
    }

    /// The application, for a test that acts on it.
    pub fn application_mut(&mut self) -> &mut A {
        &mut self.application
    }

    fn tell_at(&mut self, at: Time, command: Command) {
        self.later.insert((at, self.next), command);
        self.next += 1;
    }

    /// When the processor, which has something to do for so many bytes from `from` on, is through with it.
    fn processed_at(&mut self, from: Time, bytes: u64) -> Time {
        let busy = self.models.1.time_for(bytes);
        if busy.is_zero() {
            return from;
        }
        self.processor_free_at = self.processor_free_at.max(from) + busy;
        self.processor_free_at
    }

    /// When the disk has done these operations.
    fn written_at(&mut self, now: Time, operations: &[DiskOperation], results: &[DiskResult]) -> Time {
        let pace = match self.models.0 {
            DiskModel::Constant(span) => return now + span,
            DiskModel::InTurn(pace) => pace,
        };
        let busy: Duration = operations.iter().zip(results).map(|(done, result)| pace.of(done, result)).sum();
        if busy.is_zero() {
            return now + pace.call;
        }
        self.disk_free_at = self.disk_free_at.max(now) + busy;
        self.disk_free_at
    }

    fn collect(&mut self, now: Time) {
        while let Some(outcome) = self.application.poll_outcome() {
            match outcome {
                Outcome::Completion(completion) => self.completions.push_back(completion),
                Outcome::Codec(job) => {
                    let (result, takes) = self.codecs.perform(job);
                    self.tell_at(now + takes, Command::Codec(result));
                }
                Outcome::Disk(errand) => {
                    let operations = errand.operations().to_vec();
                    let mut disk = self.disk.borrow_mut();
                    let results = errand.perform(|operation| operation.perform_on(&mut *disk));
                    drop(disk);
                    let bytes = operations.iter().map(bytes_of).sum();
                    let written = self.written_at(now, &operations, &results);
                    let due = self.processed_at(written, bytes);
                    results.into_iter().for_each(|result| self.tell_at(due, Command::Disk(result)));
                }
            }
        }
    }
}

impl<A: Host> Application for Hosted<A> {
    type Command = Command;
    type Outcome = Completion;

    fn handle_event(&mut self, now: Time, node: &mut Node, event: Event) {
        self.application.handle_event(now, node, event);
        self.collect(now);
    }

    fn handle_command(&mut self, now: Time, node: &mut Node, command: Command) {
        if let Command::Start(_, action) = &command {
            let begins = self.processed_at(now, action.payload_bytes());
            if begins > now {
                return self.tell_at(begins, command);
            }
        }
        self.application.handle_command(now, node, command);
        self.collect(now);
    }

    fn handle_timeout(&mut self, now: Time, node: &mut Node) {
        while let Some(first) = self.later.first_entry().filter(|first| first.key().0 <= now) {
            let command = first.remove();
            self.application.handle_command(now, node, command);
        }
        self.application.handle_timeout(now, node);
        self.collect(now);
    }

    fn next_timeout(&self) -> Option<Time> {
        let later = self.later.keys().next().map(|(at, _)| *at);
        later.into_iter().chain(self.application.next_timeout()).min()
    }

    fn poll_outcome(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }
}

//! The calls of a work as collective ones.

use std::collections::BTreeMap;

use super::{Call, Process, Work};
use crate::record::{ApplicationId, ClientId, FileId, Operation};

/// Which collective call a call is part of: its job, what it does to which file, and how many such calls its process
/// has made before.
type Step = (ApplicationId, FileId, Operation, usize);

impl Work {
    /// The same bytes, asked for by collective calls: the first call of each process of a job that reads (or writes) a
    /// file is made together with the first such call of the others, the second with the second, and so on. A call
    /// begins when the last of its processes would have begun it, and after the one before it at that file; each byte
    /// is asked for once. None if no two processes ask for something together.
    ///
    /// Processes that exchange their bytes first take time for it, which is not counted here.
    pub fn together(&self) -> Option<Work> {
        let mut made: BTreeMap<(Process, FileId, Operation), usize> = BTreeMap::new();
        let mut steps: BTreeMap<Step, Call> = BTreeMap::new();
        for call in &self.calls {
            let count = made.entry((call.process, call.file, call.operation)).or_default();
            let step = (call.process.application, call.file, call.operation, *count);
            *count += 1;
            match steps.get_mut(&step) {
                Some(common) => common.join(call),
                None => drop(steps.insert(step, call.clone())),
            }
        }
        if steps.len() == self.calls.len() {
            return None;
        }
        let mut calls: Vec<Call> = Vec::with_capacity(steps.len());
        for ((application, file, operation, _), mut call) in steps {
            call.process = Process { application, client: ClientId(0) };
            call.regions = union(call.regions);
            let before = calls
                .last()
                .filter(|last| (last.process, last.file, last.operation) == (call.process, file, operation));
            call.start = call.start.max(before.map_or(0, |before| before.end));
            call.end = call.end.max(call.start);
            calls.push(call);
        }
        Some(Work { calls, clients: self.clients.clone(), regions: self.regions }.finish())
    }
}

impl Call {
    /// Makes this the collective call of its own processes and that of another call.
    fn join(&mut self, other: &Call) {
        self.regions.extend(&other.regions);
        self.start = self.start.max(other.start);
        self.end = self.end.max(other.end);
    }
}

/// The same bytes in ascending order, each once.
fn union(mut regions: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    regions.sort_unstable();
    let mut union: Vec<(u64, u64)> = Vec::new();
    for (offset, length) in regions {
        match union.last_mut().filter(|(from, bytes)| offset <= from + bytes) {
            Some((from, bytes)) => *bytes = (*bytes).max(offset + length - *from),
            None => union.push((offset, length)),
        }
    }
    union
}

#[cfg(test)]
mod tests {
    use crate::record::Micros;
    use crate::replay::Work;
    use crate::replay::tests::{request, work};

    /// Requests of ten bytes: the process, when they began and ended, and where.
    fn of(requests: &[(u32, (Micros, Micros), u64)]) -> Work {
        let requests = requests.iter().map(|(client, times, offset)| request(Some(*client), *times, *offset));
        work(&requests.collect::<Vec<_>>())
    }

    #[test]
    fn the_first_calls_of_all_processes_are_one_and_so_are_the_second_ones() {
        // Process 1 was through with both of its calls before process 2 ended its first.
        let work = of(&[(1, (0, 5), 0), (1, (6, 9), 20), (2, (1, 12), 10), (2, (20, 30), 35)]);
        let together = work.together().expect("two processes");
        let calls: Vec<_> =
            together.calls().iter().map(|call| (call.start, call.end, &call.regions[..])).collect();
        assert_eq!(calls, [(1, 12, &[(0, 20)][..]), (20, 30, &[(20, 10), (35, 10)][..])]);
        assert_eq!(together.bytes(), work.bytes());
    }

    #[test]
    fn a_collective_call_begins_after_the_one_before_it_and_asks_for_each_byte_once() {
        let work = of(&[(1, (0, 50), 0), (2, (0, 5), 5), (1, (51, 52), 100), (2, (6, 7), 100)]);
        let together = work.together().expect("two processes");
        let calls: Vec<_> =
            together.calls().iter().map(|call| (call.start, call.end, &call.regions[..])).collect();
        assert_eq!(calls, [(0, 50, &[(0, 15)][..]), (51, 52, &[(100, 10)][..])]);
    }

    #[test]
    fn one_process_has_nobody_to_call_with() {
        assert!(of(&[(1, (0, 5), 0), (1, (6, 9), 20)]).together().is_none());
    }
}

//! Jobs, one after the other.

use super::access::{Access, Tally, access};
use super::card::{self, Card, Kind};
use super::deck::{Chance, Deck, Pool};
use super::{Asks, Model};
use crate::record::{
    ApplicationExit, ApplicationId, ApplicationLoad, ClientId, Close, Descriptor, FileId, Link, Micros, Open,
    OpenMode, Record, Request, Resize, SetMode,
};

const SECOND: f64 = 1e6;
const HOUR_S: f64 = 3_600.0;

/// What the disks of the study's machine could do (`[charisma §2.3]`: 33 to 264 MB/s), in bytes per second.
const DISK_RATE: f64 = 264e6;

/// Draws jobs without end: each item is the records of one job in the order of time. Equal seeds give equal jobs.
pub struct Generator<'a> {
    model: &'a Model,
    chance: Chance,
    days: Deck<u64>,
    files_per_job: Deck<u64>,
    cards: Deck<Card>,
    durations: Pool,
    nodes: Pool,
    tallies: [Tally; 2],
    jobs: u64,
    files: u64,
    long: f64,
    /// Blocks that were read again, in the same pass and in loops.
    reread: (u64, u64),
    misfits: Misfits,
}

/// How many files did not get what their cards say, however often they were drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Misfits {
    /// Files in all.
    pub files: u64,
    /// Those that did not.
    pub misfits: u64,
}

/// What is to be done with one file.
struct Task {
    card: Card,
    access: Access,
    /// Seconds between requests.
    delays: Vec<f64>,
    /// Seconds from open to close at least.
    needs: f64,
    loops: u64,
}

impl Task {
    /// Whether processes read the same bytes: they do it together.
    fn is_in_step(&self) -> bool {
        self.card.kind == Kind::Read && self.card.byte_row == 5 && self.access.sessions.len() > 1
    }
}

impl<'a> Generator<'a> {
    /// Begins a workload.
    pub fn new(model: &'a Model, seed: u64) -> Generator<'a> {
        let mut chance = Chance::new(seed);
        let days = model.jobs_per_day.value.iter().enumerate();
        let days = days.flat_map(|(day, jobs)| std::iter::repeat_n(day as u64, *jobs as usize)).collect();
        let cards = card::deck(model, &mut chance);
        Generator {
            model,
            days: Deck::new(days),
            files_per_job: Deck::new(files_per_job(model)),
            cards: Deck::new(cards),
            durations: Pool::default(),
            nodes: Pool::default(),
            tallies: Default::default(),
            jobs: 0,
            files: 0,
            long: 0.0,
            reread: (0, 0),
            misfits: Misfits::default(),
            chance,
        }
    }

    /// What was drawn so far in vain.
    pub fn misfits(&self) -> Misfits {
        self.misfits
    }

    fn job(&mut self) -> Vec<Record> {
        self.jobs += 1;
        let application = ApplicationId(self.jobs);
        let count = self.files_per_job.deal(&mut self.chance);
        let tasks: Vec<Task> = (0..count).map(|_| self.task()).collect();
        let needs = tasks.iter().map(|task| task.needs).fold(0.0, f64::max);
        let processes = tasks.iter().map(|task| task.access.processes).max().unwrap_or(1);
        let model = self.model;
        let duration = self
            .durations
            .take(needs * 1.02, &mut self.chance, |chance| chance.mixture(&model.duration_s.value));
        let nodes = self
            .nodes
            .take(processes.into(), &mut self.chance, |chance| chance.weighted(&model.nodes.value).into());
        let load = self.load_time();
        let mut records = Vec::new();
        for task in &tasks {
            self.play(task, application, load, duration, &mut records);
        }
        records.sort_by_key(Record::at);
        let executable = format!("/{}/program-{}", model.name, self.chance.below(434));
        let first = Record::ApplicationLoad(ApplicationLoad {
            at: load,
            application,
            executable,
            user: self.chance.below(384) as u32,
            clients: nodes as u32,
            client_list: Vec::new(),
        });
        let at = load + (duration * SECOND) as u64;
        let exit = Record::ApplicationExit(ApplicationExit { at, application });
        [first].into_iter().chain(records).chain([exit]).collect()
    }

    /// Within a day; its peak is between 2 and 3 in the afternoon (`[charisma §4.1]`).
    fn load_time(&mut self) -> Micros {
        let day = self.days.deal(&mut self.chance);
        let (one, other) = (self.chance.share(), self.chance.share());
        let hour = if one < 0.6 { 14.5 * one.max(other) } else { 14.5 + 9.4 * one.min(other) };
        self.model.first_day_us.value + day * 86_400_000_000 + (hour * HOUR_S * SECOND) as u64
    }

    fn task(&mut self) -> Task {
        let card = self.cards.deal(&mut self.chance);
        let (access, fits) = access(self.model, &card, &mut self.tallies, &mut self.chance);
        self.misfits.files += 1;
        self.misfits.misfits += u64::from(!fits);
        let count: usize = access.sessions.iter().map(|session| session.requests.len()).sum();
        let delays: Vec<f64> = (0..count).map(|_| self.chance.mixture(&self.model.rewrite_s.value)).collect();
        let moved: u64 = access.sessions.iter().flat_map(|s| &s.requests).map(|request| request.bytes).sum();
        let pass: f64 = delays.iter().sum::<f64>() + moved as f64 / DISK_RATE + 1e-3 * count as f64;
        let loops = self.loops(&card, &access, count as u64);
        let needs = (pass + 0.01) * loops as f64 + (loops - 1) as f64 * self.model.reread_loop.value.1;
        Task { card, access, delays, needs, loops }
    }

    /// How often a file that is read is read again from its begin: as often as repeated reads in loops are missing.
    /// Files of few blocks do it, so that the bytes per file stay what they are.
    fn loops(&mut self, card: &Card, access: &Access, requests: u64) -> u64 {
        let blocks = access.end.div_ceil(super::layout::BLOCK);
        if card.kind != Kind::Read || blocks > 40 {
            self.reread.0 += if card.kind == Kind::Read { requests.saturating_sub(1) } else { 0 };
            return 1;
        }
        self.reread.0 += requests.saturating_sub(1);
        let wanted =
            self.model.reread_loop.value.0 / (1.0 - self.model.reread_loop.value.0) * self.reread.0 as f64;
        let is_missing = (self.reread.1 + blocks) as f64 <= wanted;
        self.reread.1 += if is_missing { blocks } else { 0 };
        1 + u64::from(is_missing)
    }

    /// For how long a file is open: some for more than an hour, as many as the study has.
    fn open_seconds(&mut self, needs: f64, duration: f64) -> f64 {
        self.files += 1;
        let wanted = self.model.open_above_hour.value * self.files as f64;
        let is_long = duration > HOUR_S * 1.05 && (self.long < wanted || needs > HOUR_S);
        self.long += f64::from(u8::from(is_long));
        let (low, high) = match is_long {
            true => (needs.max(HOUR_S * 1.01), duration * 0.99),
            false => (needs.max(1e-3), duration.min(HOUR_S * 0.99) * 0.99),
        };
        if high > low { self.chance.log_between(low, high) } else { low }
    }

    fn play(
        &mut self,
        task: &Task,
        application: ApplicationId,
        load: Micros,
        duration: f64,
        out: &mut Vec<Record>,
    ) {
        let open_s = self.open_seconds(task.needs, duration);
        let begin = load + ((duration - open_s).max(0.0) * self.chance.share() * SECOND) as u64;
        let file = FileId(self.files);
        let mut scene = Scene {
            application,
            file,
            path: format!("/sda1/{}/file-{}", self.model.name, self.files),
            is_whole: self.model.asks == Asks::Job || task.card.is_broadcast(),
            size: if task.card.kind == Kind::Read { task.access.end } else { 0 },
            at: begin,
            out,
        };
        let end = begin + (open_s * SECOND) as u64;
        scene.play(task, end, self.model.reread_loop.value.1);
        if task.card.is_huge {
            let size = 10_000_000_000 + self.chance.below(10_000_000_000);
            scene.resize(size);
        }
        if task.card.is_temporary {
            scene.unlink();
        }
    }
}

impl Iterator for Generator<'_> {
    type Item = Vec<Record>;

    fn next(&mut self) -> Option<Vec<Record>> {
        Some(self.job())
    }
}

/// How many files each job opens. Those with 10 and more share what is missing to all files, some many of them.
fn files_per_job(model: &Model) -> Vec<u64> {
    let counts = &model.files_per_job.value;
    let mut jobs: Vec<u64> =
        (0..10).flat_map(|files| std::iter::repeat_n(files, counts[files as usize] as usize)).collect();
    let many = counts[10];
    let all: u64 = model.files.value.iter().sum();
    let mut extra = all.saturating_sub(jobs.iter().sum::<u64>() + 10 * many);
    let squares: u64 = (1..=many).map(|place| place * place).sum();
    let whole = extra;
    for place in 1..=many {
        let more =
            if place == many { extra } else { (whole * place * place).checked_div(squares).unwrap_or(0) };
        extra -= more;
        jobs.push(10 + more);
    }
    jobs
}

/// One file of one job while its records are written.
struct Scene<'a> {
    application: ApplicationId,
    file: FileId,
    path: String,
    is_whole: bool,
    size: u64,
    at: Micros,
    out: &'a mut Vec<Record>,
}

impl Scene<'_> {
    fn play(&mut self, task: &Task, end: Micros, loop_s: f64) {
        for pass in 0..task.loops {
            let is_last = pass + 1 == task.loops;
            let mut delays = task.delays.iter().copied();
            if task.is_in_step() {
                self.play_in_step(task, &mut delays, is_last.then_some(end));
            } else {
                self.play_in_turn(task, &mut delays, is_last.then_some(end));
            }
            if !is_last {
                self.at += (loop_s * SECOND) as u64;
            }
        }
    }

    /// Each session after the one before it; the last one lasts until `end`.
    fn play_in_turn(&mut self, task: &Task, delays: &mut impl Iterator<Item = f64>, end: Option<Micros>) {
        let sessions = &task.access.sessions;
        for (index, session) in sessions.iter().enumerate() {
            self.open(session.client, &task.card);
            session.requests.iter().for_each(|request| self.request(request, delays.next().unwrap_or(0.0)));
            if index + 1 == sessions.len() {
                self.at = self.at.max(end.unwrap_or(0));
            }
            self.close(session.client);
        }
    }

    /// The sessions at the same time: each request of one is followed by those of the others.
    fn play_in_step(&mut self, task: &Task, delays: &mut impl Iterator<Item = f64>, end: Option<Micros>) {
        let sessions = &task.access.sessions;
        sessions.iter().for_each(|session| self.open(session.client, &task.card));
        let longest = sessions.iter().map(|session| session.requests.len()).max().unwrap_or(0);
        for index in 0..longest {
            for request in sessions.iter().filter_map(|session| session.requests.get(index)) {
                self.request(request, delays.next().unwrap_or(0.0));
            }
        }
        self.at = self.at.max(end.unwrap_or(0));
        sessions.iter().for_each(|session| self.close(session.client));
    }

    fn request(&mut self, request: &Request, delay: f64) {
        self.at += (delay * SECOND) as u64;
        let took = (100.0 + request.bytes as f64 / DISK_RATE * SECOND) as u64;
        self.size = self.size.max(request.offset + request.bytes);
        self.out.push(Record::Request(Request {
            start: self.at,
            end: self.at + took,
            application: self.application,
            file: self.file,
            ..*request
        }));
        self.at += took;
    }

    fn open(&mut self, client: Option<ClientId>, card: &Card) {
        let mode = match card.kind {
            Kind::Read | Kind::None => OpenMode::Read,
            Kind::Written | Kind::Both if card.is_temporary => OpenMode::Create,
            Kind::Written => OpenMode::Write,
            Kind::Both => OpenMode::ReadWrite,
        };
        let open = Open {
            at: self.at,
            application: self.application,
            client,
            path: self.path.clone(),
            file: self.file,
            descriptor: Descriptor(0),
            size: self.size,
            created: if mode == OpenMode::Create { self.at } else { 0 },
            mode,
        };
        self.out.push(if self.is_whole { Record::ApplicationOpen(open) } else { Record::ClientOpen(open) });
        if let Some(mode) = card.mode {
            let (at, application, file) = (self.at, self.application, self.file);
            self.out.push(Record::SetMode(SetMode { at, application, client, file, mode }));
        }
    }

    fn close(&mut self, client: Option<ClientId>) {
        let close =
            Close { at: self.at, application: self.application, client, file: self.file, size: self.size };
        self.out.push(if self.is_whole {
            Record::ApplicationClose(close)
        } else {
            Record::ClientClose(close)
        });
    }

    fn resize(&mut self, size: u64) {
        let (at, application, file, original) = (self.at, self.application, self.file, self.size);
        self.out.push(Record::Resize(Resize { at, application, client: None, file, original, size }));
    }

    fn unlink(&mut self) {
        let (at, application, file) = (self.at, self.application, self.file);
        self.out.push(Record::Link(Link { at, application, client: None, file, links: 0 }));
    }
}

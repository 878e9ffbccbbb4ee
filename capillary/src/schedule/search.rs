//! The exact search for a liquid schedule.

use super::{Schedule, Traffic};

/// What the search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A schedule of as many frames as the bound.
    Liquid(Schedule),
    /// None exists: every choice was tried.
    Impossible,
    /// The patience ended first.
    Unknown,
}

/// What does not change while frames are given.
pub(super) struct Search<'t> {
    traffic: &'t Traffic,
    frames: usize,
    /// The transfers that each transfer collides with.
    collides: Vec<Vec<u32>>,
    /// The transfers over each bottleneck.
    bottlenecks: Vec<Vec<u32>>,
    /// The bottlenecks that each transfer crosses.
    crossed: Vec<Vec<u32>>,
    decisions: usize,
    patience: usize,
}

/// The frames that are still open to each transfer.
#[derive(Clone)]
struct State {
    /// A bit for each frame, `words` words for each transfer.
    open: Vec<u64>,
    words: usize,
    /// How many frames are open to each transfer.
    left: Vec<u32>,
    fixed: Vec<bool>,
    /// How many transfers over bottleneck b can be in frame f: `candidates[b · frames + f]`.
    candidates: Vec<u32>,
    /// Transfers with one frame left that is not yet taken from the others.
    queue: Vec<u32>,
}

/// A transfer to decide on, with the frames that were not tried yet.
struct Choice {
    state: State,
    transfer: u32,
    frames: Vec<usize>,
}

/// A choice that leads to no schedule.
struct Contradiction;

impl<'t> Search<'t> {
    pub(super) fn run(traffic: &'t Traffic, patience: usize) -> Outcome {
        let mut search = Self::new(traffic, patience);
        let Ok(state) = search.root() else { return Outcome::Impossible };
        match search.complete(state) {
            Some(Some(state)) => Outcome::Liquid(search.schedule(&state)),
            Some(None) => Outcome::Impossible,
            None => Outcome::Unknown,
        }
    }

    fn new(traffic: &'t Traffic, patience: usize) -> Self {
        let count = traffic.transfers().len();
        let mut collides = vec![Vec::new(); count];
        for (_, on) in traffic.loads() {
            for &a in on {
                collides[a].extend(on.iter().filter(|&&b| b != a).map(|&b| b as u32));
            }
        }
        for others in &mut collides {
            others.sort_unstable();
            others.dedup();
        }
        let numbered = |(_, on): (_, &[usize])| on.iter().map(|&index| index as u32).collect();
        let bottlenecks: Vec<Vec<u32>> = traffic.bottlenecks().map(numbered).collect();
        let mut crossed = vec![Vec::new(); count];
        for (number, on) in bottlenecks.iter().enumerate() {
            on.iter().for_each(|&index| crossed[index as usize].push(number as u32));
        }
        let frames = traffic.bound();
        Self { traffic, frames, collides, bottlenecks, crossed, decisions: 0, patience }
    }

    /// All frames are open to all transfers but those of the first bottleneck, which get frames 0, 1, 2 and so on.
    fn root(&self) -> Result<State, Contradiction> {
        let (count, words) = (self.collides.len(), self.frames.div_ceil(64));
        let bits = |word: usize| match self.frames - 64 * word {
            64.. => u64::MAX,
            rest => (1 << rest) - 1,
        };
        let mut state = State {
            open: (0..count).flat_map(|_| (0..words).map(bits)).collect(),
            words,
            left: vec![self.frames as u32; count],
            fixed: vec![false; count],
            candidates: vec![self.frames as u32; self.bottlenecks.len() * self.frames],
            queue: Vec::new(),
        };
        if self.frames == 1 {
            state.queue.extend(0..count as u32);
        }
        for (frame, &transfer) in
            self.bottlenecks.iter().flat_map(|on| on.iter().enumerate()).take(self.frames)
        {
            self.fix(&mut state, transfer, frame)?;
        }
        self.propagate(&mut state)?;
        Ok(state)
    }

    /// The solution within a state: `None` if the patience ends, `Some(None)` if there is none.
    fn complete(&mut self, root: State) -> Option<Option<State>> {
        let mut choices = match self.choice(root) {
            Ok(choice) => vec![choice],
            Err(complete) => return Some(Some(*complete)),
        };
        while let Some(choice) = choices.last_mut() {
            let Some(frame) = choice.frames.pop() else {
                choices.pop();
                continue;
            };
            self.decisions += 1;
            if self.decisions > self.patience {
                return None;
            }
            let (mut next, transfer) = (choice.state.clone(), choice.transfer);
            if self.fix(&mut next, transfer, frame).is_ok() && self.propagate(&mut next).is_ok() {
                match self.choice(next) {
                    Ok(choice) => choices.push(choice),
                    Err(complete) => return Some(Some(*complete)),
                }
            }
        }
        Some(None)
    }

    /// The next transfer to decide on with its frames, the best last; or the state itself, if all are decided.
    fn choice(&self, state: State) -> Result<Choice, Box<State>> {
        let Some(transfer) = self.next(&state) else { return Err(Box::new(state)) };
        let mut frames: Vec<usize> = state.frames(transfer).collect();
        frames.sort_by_key(|&frame| std::cmp::Reverse(self.harm(&state, transfer, frame)));
        Ok(Choice { state, transfer, frames })
    }

    /// The transfer with fewest frames left; of several, the one that collides with most.
    fn next(&self, state: &State) -> Option<u32> {
        let open = (0..state.left.len()).filter(|&transfer| !state.fixed[transfer]);
        let by_frames =
            |&transfer: &usize| (state.left[transfer], usize::MAX - self.collides[transfer].len());
        open.min_by_key(by_frames).map(|transfer| transfer as u32)
    }

    /// How many others lose the frame.
    fn harm(&self, state: &State, transfer: u32, frame: usize) -> usize {
        let others = self.collides[transfer as usize].iter();
        others.filter(|&&other| !state.fixed[other as usize] && state.is_open(other, frame)).count()
    }

    /// Closes all frames but one.
    fn fix(&self, state: &mut State, transfer: u32, frame: usize) -> Result<(), Contradiction> {
        if !state.is_open(transfer, frame) {
            return Err(Contradiction);
        }
        let others: Vec<usize> = state.frames(transfer).filter(|&other| other != frame).collect();
        others.into_iter().try_for_each(|other| self.close(state, transfer, other))?;
        if self.frames == 1 || state.left[transfer as usize] == 1 {
            state.queue.push(transfer);
        }
        Ok(())
    }

    /// Closes a frame to a transfer, and decides what follows for the bottlenecks that it crosses.
    fn close(&self, state: &mut State, transfer: u32, frame: usize) -> Result<(), Contradiction> {
        if !state.is_open(transfer, frame) {
            return Ok(());
        }
        state.open[transfer as usize * state.words + frame / 64] &= !(1 << (frame % 64));
        state.left[transfer as usize] -= 1;
        match state.left[transfer as usize] {
            0 => return Err(Contradiction),
            1 => state.queue.push(transfer),
            _ => {}
        }
        for &bottleneck in &self.crossed[transfer as usize] {
            let count = &mut state.candidates[bottleneck as usize * self.frames + frame];
            *count -= 1;
            match *count {
                0 => return Err(Contradiction),
                1 => {
                    let only = self.bottlenecks[bottleneck as usize].iter().copied();
                    let Some(only) = only.into_iter().find(|&other| state.is_open(other, frame)) else {
                        return Err(Contradiction);
                    };
                    if state.left[only as usize] > 1 {
                        self.fix(state, only, frame)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes the frames of transfers that have one left from all that collide with them.
    fn propagate(&self, state: &mut State) -> Result<(), Contradiction> {
        while let Some(transfer) = state.queue.pop() {
            if std::mem::replace(&mut state.fixed[transfer as usize], true) {
                continue;
            }
            let Some(frame) = state.frames(transfer).next() else { return Err(Contradiction) };
            for &other in &self.collides[transfer as usize] {
                self.close(state, other, frame)?;
            }
        }
        Ok(())
    }

    fn schedule(&self, state: &State) -> Schedule {
        let mut frames = vec![Vec::new(); self.frames];
        for transfer in 0..self.traffic.transfers().len() {
            if let Some(frame) = state.frames(transfer as u32).next() {
                frames[frame].push(transfer);
            }
        }
        Schedule { frames }
    }
}

impl State {
    fn is_open(&self, transfer: u32, frame: usize) -> bool {
        self.open[transfer as usize * self.words + frame / 64] >> (frame % 64) & 1 == 1
    }

    /// The frames open to a transfer.
    fn frames(&self, transfer: u32) -> impl Iterator<Item = usize> {
        let start = transfer as usize * self.words;
        let words = self.open[start..start + self.words].iter().enumerate();
        words.flat_map(|(word, &bits)| {
            std::iter::successors((bits != 0).then_some(bits), |&bits| {
                let rest = bits & (bits - 1);
                (rest != 0).then_some(rest)
            })
            .map(move |bits| 64 * word + bits.trailing_zeros() as usize)
        })
    }
}

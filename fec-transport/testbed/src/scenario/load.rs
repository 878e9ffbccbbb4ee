//! The application of a scenario's members: it sends the flows that begin at its member and takes those that end there.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use super::ledger::{Ledger, Traffic};
use crate::content;
use fec_transport::Application;
use fec_transport::Node;
use fec_transport::Time;
use fec_transport::overlay::MemberId;
use fec_transport::{Class, Read};
use fec_transport::{Event, SessionId, StreamId};

/// After how long a flow whose session ended opens another one.
const REOPEN: Duration = Duration::from_millis(500);

/// What a member does in a scenario.
#[derive(Debug)]
pub(super) struct Load {
    member: MemberId,
    ledger: Rc<RefCell<Ledger>>,
    /// Our flows, by their position in the scenario.
    sending: BTreeMap<usize, Sending>,
    receiving: BTreeMap<StreamId, usize>,
}

/// A flow that we send.
#[derive(Debug)]
struct Sending {
    phase: Phase,
    /// Bytes written to the present stream.
    written: u64,
    /// Messages that have come due in all, and how many bytes of them are not written yet.
    messages: u64,
    backlog: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// It begins, or begins anew, at that time.
    Waiting(Time),
    Connecting(SessionId),
    Open(StreamId),
    Over,
}

impl Load {
    pub(super) fn new(member: MemberId, ledger: Rc<RefCell<Ledger>>) -> Load {
        let begin = |flow: &super::ledger::Flow| Sending {
            phase: Phase::Waiting(flow.start),
            written: 0,
            messages: 0,
            backlog: 0,
        };
        let ours = ledger.borrow();
        let ours = ours.flows.iter().enumerate().filter(|(_, flow)| flow.from == member);
        let sending = ours.map(|(index, flow)| (index, begin(flow))).collect();
        Load { member, ledger: Rc::clone(&ledger), sending, receiving: BTreeMap::new() }
    }

    fn begin(&mut self, now: Time, node: &mut Node, flow: usize) {
        let to = self.ledger.borrow().flows[flow].to;
        let Some(sending) = self.sending.get_mut(&flow) else { return };
        match node.connect(now, to) {
            Ok(session) => {
                sending.phase = Phase::Connecting(session);
                // The session may have been open before.
                self.open(now, node, flow, session);
            }
            Err(_) => sending.phase = Phase::Waiting(now + REOPEN),
        }
    }

    fn open(&mut self, now: Time, node: &mut Node, flow: usize, session: SessionId) {
        let class = self.ledger.borrow().flows[flow].class;
        let Ok(stream) = open_stream(now, node, session, class) else { return };
        self.ledger.borrow_mut().stream_opened(flow, stream.number);
        if let Some(sending) = self.sending.get_mut(&flow) {
            sending.phase = Phase::Open(stream);
            (sending.written, sending.backlog) = (0, 0);
            self.ledger.borrow_mut().records[flow].first_message = sending.messages as usize;
        }
        self.write(now, node, flow);
    }

    /// The sessions of these flows are gone.
    fn lost(&mut self, now: Time, session: SessionId) {
        for (flow, sending) in &mut self.sending {
            let is_its = match sending.phase {
                Phase::Connecting(of) => of == session,
                Phase::Open(stream) => stream.session == session,
                _ => false,
            };
            if is_its {
                sending.phase = Phase::Waiting(now + REOPEN);
                self.ledger.borrow_mut().records[*flow].restarts += 1;
            }
        }
        self.receiving.retain(|stream, _| stream.session != session);
    }

    fn write(&mut self, now: Time, node: &mut Node, flow: usize) {
        let Some(sending) = self.sending.get_mut(&flow) else { return };
        let Phase::Open(stream) = sending.phase else { return };
        let (traffic, stop) = {
            let ledger = self.ledger.borrow();
            (ledger.flows[flow].traffic.clone(), ledger.flows[flow].stop)
        };
        let is_over = stop.is_some_and(|stop| now >= stop);
        let end = match traffic {
            _ if is_over => sending.written,
            Traffic::Bulk { bytes } => bytes.unwrap_or(u64::MAX),
            Traffic::Messages { .. } => sending.written + sending.backlog,
        };
        let before = sending.written;
        while sending.written < end {
            let wanted = (end - sending.written).min(content::PIECE as u64) as usize;
            let piece = content::piece(sending.written, wanted);
            let Ok(taken) = node.write(now, stream, piece) else { break };
            sending.written += taken as u64;
            if taken < piece.len() {
                break;
            }
        }
        if let Traffic::Messages { .. } = traffic {
            sending.backlog -= sending.written - before;
            let _ = node.flush(now, stream);
        }
        let is_all = matches!(traffic, Traffic::Bulk { bytes: Some(all) } if sending.written == all);
        if is_all || is_over {
            let _ = node.finish(now, stream);
            sending.phase = Phase::Over;
        }
    }

    /// Messages that are due join the backlog.
    fn messages_due(&mut self, now: Time, node: &mut Node) {
        let flows: Vec<usize> = self.sending.keys().copied().collect();
        for flow in flows {
            let before = self.sending[&flow].messages;
            while let Some(at) = self.next_message(flow).filter(|at| *at <= now) {
                let Traffic::Messages { bytes, .. } = self.ledger.borrow().flows[flow].traffic else { break };
                let Some(sending) = self.sending.get_mut(&flow) else { break };
                sending.messages += 1;
                sending.backlog += bytes;
                self.ledger.borrow_mut().message_due(flow, at, bytes);
            }
            if self.sending[&flow].messages > before {
                self.write(now, node, flow);
            }
        }
    }

    /// Flows that end by the clock.
    fn stop(&mut self, now: Time, node: &mut Node) {
        let is_due = |flow: &usize| self.stop_of(*flow).is_some_and(|stop| stop <= now);
        let due: Vec<usize> = self.sending.keys().copied().filter(is_due).collect();
        due.into_iter().for_each(|flow| self.write(now, node, flow));
    }

    /// When an open flow ends by the clock.
    fn stop_of(&self, flow: usize) -> Option<Time> {
        let sending = self.sending.get(&flow)?;
        self.ledger.borrow().flows[flow].stop.filter(|_| matches!(sending.phase, Phase::Open(_)))
    }

    /// When the next message of a flow is to be written, if it has one.
    fn next_message(&self, flow: usize) -> Option<Time> {
        let ledger = self.ledger.borrow();
        let (of, sending) = (&ledger.flows[flow], self.sending.get(&flow)?);
        let Traffic::Messages { every, .. } = of.traffic else { return None };
        // A flow that never began has nothing to be late with.
        let has_begun = !matches!(sending.phase, Phase::Over)
            && (sending.messages > 0 || matches!(sending.phase, Phase::Open(_)));
        let nanos = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX).saturating_mul(sending.messages);
        let at = of.start + Duration::from_nanos(nanos);
        (has_begun && of.stop.is_none_or(|stop| at < stop)).then_some(at)
    }

    fn read(&mut self, now: Time, node: &mut Node, stream: StreamId) {
        let Some(flow) = self.flow_of(node, stream) else { return };
        let in_order = self.ledger.borrow().flows[flow].in_order;
        loop {
            let read =
                if in_order { node.read(now, stream, content::PIECE) } else { node.read_block(now, stream) };
            match read {
                Ok(Read::Data { offset, bytes }) => {
                    self.ledger.borrow_mut().delivered(now, flow, offset, &bytes);
                }
                // What is lost stays missing from its messages.
                Ok(Read::Lost { .. }) => {}
                Ok(Read::Finished) => {
                    let _ = node.finish(now, stream);
                    return;
                }
                _ => return,
            }
        }
    }

    fn flow_of(&mut self, node: &Node, stream: StreamId) -> Option<usize> {
        if let Some(flow) = self.receiving.get(&stream) {
            return Some(*flow);
        }
        let from = node.session_status(stream.session)?.peer.member;
        let flow = self.ledger.borrow().find(from, self.member, stream.number)?;
        self.receiving.insert(stream, flow);
        Some(flow)
    }
}

/// Opens a stream of that class.
fn open_stream(
    now: Time,
    node: &mut Node,
    session: SessionId,
    class: Class,
) -> Result<StreamId, fec_transport::StreamError> {
    let stream = node.open_stream(session)?;
    node.set_class(now, stream, class)?;
    Ok(stream)
}

impl Application for Load {
    type Command = ();
    type Outcome = ();

    fn handle_event(&mut self, now: Time, node: &mut Node, event: Event) {
        match event {
            Event::SessionOpened { session, incoming: false, .. } => {
                let connecting =
                    self.sending.iter().filter(|(_, sending)| sending.phase == Phase::Connecting(session));
                let flows: Vec<usize> = connecting.map(|(flow, _)| *flow).collect();
                flows.into_iter().for_each(|flow| self.open(now, node, flow, session));
            }
            Event::SessionClosed { session, .. } => self.lost(now, session),
            Event::Readable { stream } => self.read(now, node, stream),
            Event::Writable { stream } => {
                let flow = self.sending.iter().find(|(_, sending)| sending.phase == Phase::Open(stream));
                if let Some(flow) = flow.map(|(flow, _)| *flow) {
                    self.write(now, node, flow);
                }
            }
            _ => {}
        }
    }

    fn handle_command(&mut self, _: Time, _: &mut Node, (): ()) {}

    fn handle_timeout(&mut self, now: Time, node: &mut Node) {
        let is_due = |sending: &Sending| matches!(sending.phase, Phase::Waiting(at) if at <= now);
        let due = self.sending.iter().filter(|(_, sending)| is_due(sending));
        let due: Vec<usize> = due.map(|(flow, _)| *flow).collect();
        due.into_iter().for_each(|flow| self.begin(now, node, flow));
        self.messages_due(now, node);
        self.stop(now, node);
    }

    fn next_timeout(&self) -> Option<Time> {
        let of = |(flow, sending): (&usize, &Sending)| match sending.phase {
            Phase::Waiting(at) => Some(at),
            _ => [self.next_message(*flow), self.stop_of(*flow)].into_iter().flatten().min(),
        };
        self.sending.iter().filter_map(of).min()
    }

    fn poll_outcome(&mut self) -> Option<()> {
        None
    }
}

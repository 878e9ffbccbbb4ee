//! Sends without end, or receives and counts.

use fec_transport::{Application, Event, Node, Read, StreamId, Time};

/// The sender has a stream, the receiver a count; who only connects has neither.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    sends: bool,
    stream: Option<StreamId>,
    pub(crate) received: u64,
    has_opened: Option<()>,
}

/// What an application is told to do with the receiver.
pub(crate) enum Command {
    Connect,
    /// Connect, and send without end.
    Send,
}

impl Flow {
    fn write(&self, now: Time, node: &mut Node) {
        let chunk = [7; 65_536];
        while let Some(stream) = self.stream {
            match node.write(now, stream, &chunk) {
                Ok(taken) if taken == chunk.len() => {}
                _ => return,
            }
        }
    }
}

impl Application for Flow {
    type Command = Command;
    type Outcome = ();

    fn handle_event(&mut self, now: Time, node: &mut Node, event: Event) {
        match event {
            Event::SessionOpened { session, incoming: false, .. } => {
                self.has_opened = Some(());
                self.stream = self.sends.then(|| node.open_stream(session).ok()).flatten();
                self.write(now, node);
            }
            Event::SessionClosed { reason, .. } if self.sends => eprintln!("the session is over: {reason}"),
            Event::Writable { .. } => self.write(now, node),
            Event::Readable { stream } => {
                while let Ok(Read::Data { bytes, .. }) = node.read_block(now, stream) {
                    self.received += bytes.len() as u64;
                }
            }
            _ => {}
        }
    }

    fn handle_command(&mut self, now: Time, node: &mut Node, command: Command) {
        self.sends = matches!(command, Command::Send);
        let receiver = node.overlay().find("receiver").expect("it is listed");
        node.connect(now, receiver).expect("there is a path");
    }

    fn handle_timeout(&mut self, _: Time, _: &mut Node) {}

    fn next_timeout(&self) -> Option<Time> {
        None
    }

    /// Once the session is open.
    fn poll_outcome(&mut self) -> Option<()> {
        self.has_opened.take()
    }
}

//! Members with messengers, in virtual time.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use fec_transport::message::fec::{Command, MessageApplication, Outcome};
use fec_transport::message::{
    AddressId, Caller, Completion, ContextId, Limits, Messenger, Posted, Room, Shared, Tag,
};
use fec_transport::overlay::MemberId;
use fec_transport::sim::{LinkSpec, Scene, World};
use fec_transport::{Config, Time};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// A message of a length, each different from the others.
pub(crate) fn content(length: usize, seed: u8) -> Vec<u8> {
    (0..length as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8 ^ seed).collect()
}

/// Two members that both can be dialled, joined by so many routes over a relay each.
pub(crate) fn two_servers(paths: usize, link: &LinkSpec) -> Scene {
    let mut scene = Scene::new().server("a").server("b");
    for number in 1..=paths {
        let relay = format!("r{number}");
        scene = scene.relay(&relay).link("a", &relay, link).link(&relay, "b", link);
    }
    scene
}

type Messengers = Rc<RefCell<BTreeMap<MemberId, (Shared, ContextId)>>>;

/// A world whose members have messengers, each with one context.
pub(crate) struct Party {
    pub(crate) world: World<MessageApplication>,
    messengers: Messengers,
}

impl Party {
    pub(crate) fn new(scene: &Scene, seed: u64) -> Party {
        Party::with_config(scene, seed, Config::default())
    }

    pub(crate) fn with_config(scene: &Scene, seed: u64, config: Config) -> Party {
        let messengers = Messengers::default();
        let all = Rc::clone(&messengers);
        let world = World::new(scene, config, seed, move |_, member| {
            let shared = Shared::new(Limits::default());
            let context = shared.lock().open_context();
            let application = MessageApplication::new(&shared);
            all.borrow_mut().insert(member, (shared, context));
            application
        });
        Party { world, messengers }
    }

    pub(crate) fn now(&self) -> Time {
        self.world.now()
    }

    pub(crate) fn run_for(&mut self, span: Duration) {
        self.world.run_for(span);
    }

    /// Runs until something holds of a member's messenger.
    pub(crate) fn run_until(
        &mut self,
        limit: Duration,
        name: &str,
        mut done: impl FnMut(&Messenger) -> bool,
    ) -> bool {
        let member = self.world.member(name);
        self.world.run_until(limit, |world| done(&world.application(member).messenger().lock()))
    }

    /// Does something with the messenger of a member, and has it carried.
    pub(crate) fn with<T>(&mut self, name: &str, act: impl FnOnce(&mut Messenger) -> T) -> T {
        let member = self.world.member(name);
        let shared = self.messengers.borrow()[&member].0.clone();
        let result = act(&mut shared.lock());
        if self.world.is_up(member) {
            self.world.command(member, Command::Carry);
        }
        result
    }

    pub(crate) fn caller(&self, name: &str) -> Caller {
        Caller::new(self.messengers.borrow()[&self.world.member(name)].1)
    }

    pub(crate) fn address(&mut self, of: &str, to: &str) -> AddressId {
        self.with(of, |messenger| messenger.look_up(&format!("fec://{to}"))).expect("an address")
    }

    pub(crate) fn send(&mut self, from: &str, to: &str, tag: u32, message: Vec<u8>) -> Posted {
        let (now, address, caller) = (self.now(), self.address(from, to), self.caller(from));
        let post = |messenger: &mut Messenger| {
            messenger.post_send(now, address, Tag(tag), vec![message.into()], caller)
        };
        self.with(from, post).expect("posted")
    }

    pub(crate) fn send_unexpected(&mut self, from: &str, to: &str, tag: u32, message: Vec<u8>) -> Posted {
        let (now, address, caller) = (self.now(), self.address(from, to), self.caller(from));
        let post = |messenger: &mut Messenger| {
            messenger.post_send_unexpected(now, address, Tag(tag), vec![message.into()], caller)
        };
        self.with(from, post).expect("posted")
    }

    pub(crate) fn receive(&mut self, at: &str, from: &str, tag: u32, room: Room) -> Posted {
        let (now, address, caller) = (self.now(), self.address(at, from), self.caller(at));
        self.with(at, |messenger| messenger.post_receive(now, address, Tag(tag), room, caller))
            .expect("posted")
    }

    pub(crate) fn completions(&mut self, name: &str) -> Vec<Completion> {
        let context = self.caller(name).context;
        self.with(name, |messenger| messenger.test_context(context, usize::MAX))
    }

    pub(crate) fn cut(&mut self, after: Duration, a: &str, b: &str) {
        let (a, b) = (self.world.member(a), self.world.member(b));
        self.world.cut(after, a, b);
    }

    pub(crate) fn restore(&mut self, after: Duration, a: &str, b: &str) {
        let (a, b) = (self.world.member(a), self.world.member(b));
        self.world.restore(after, a, b);
    }

    /// Has a member say nothing more; runs until the others have all that it has said, at most for `limit`.
    pub(crate) fn finish(&mut self, name: &str, limit: Duration) -> bool {
        let member = self.world.member(name);
        self.world.take_outcomes();
        self.world.command(member, Command::Finish);
        let until = self.now() + limit;
        while self.now() < until {
            if self.world.take_outcomes().contains(&(member, Outcome::Finished)) {
                return true;
            }
            self.run_for(Duration::from_millis(1));
        }
        false
    }

    pub(crate) fn crash(&mut self, name: &str) {
        self.world.crash(Duration::ZERO, self.world.member(name));
    }

    pub(crate) fn restart(&mut self, name: &str) {
        self.world.restart(Duration::ZERO, self.world.member(name));
    }
}

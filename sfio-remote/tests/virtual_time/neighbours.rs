//! The worst neighbour: for each thing that the members share at an I/O node, one or two members that take all that
//! they can of it, while another one's transfers keep their rate and its requests are answered.

use std::time::Duration;

use bytes::Bytes;
use fec_transport::Time;
use fec_transport::sim::{LinkSpec, Scene};
use sfio_remote::client::operations::{Read, Stat, Sync, Write};
use sfio_remote::client::{FileId, OpenMode};
use sfio_remote::io_node::{IoNodeConfig, MemberUse};
use sfio_remote::request::{ReadList, WriteList};
use sfio_remote::sim::DiskPace;

use crate::cluster::{Cluster, MS, SECOND, pattern};
use crate::hostile::{Attack, BAIT};

/// A disk of 200 MB/s: half of it is more than twice what a link of 200 Mbit/s carries.
const DISK: DiskPace =
    DiskPace { bytes_per_second: 200e6, call: Duration::from_micros(100), sync: Duration::from_millis(8) };
const LINK_MBIT: u64 = 200;
const LENGTH: u64 = 24 << 20;

/// How a member fares.
#[derive(Debug, Clone, Copy)]
struct Fare {
    /// Bytes per second of a read and of a write.
    read: f64,
    write: f64,
    /// The longest of some requests without payload, one after the other.
    ping: Duration,
}

struct Neighbours {
    cluster: Cluster,
    file: FileId,
    data: Bytes,
}

impl Neighbours {
    /// An honest member, two hostile ones, and an I/O node, each with a link of its own, 20 ms away.
    fn new(disk: DiskPace) -> Neighbours {
        let link = LinkSpec::new(LINK_MBIT, 20 * MS);
        let scene = Scene::new().client("c1").client("h1").client("h2").server("io1");
        let scene = ["c1", "h1", "h2"].into_iter().fold(scene, |scene, name| scene.link(name, "io1", &link));
        let mut cluster = Cluster::with_pace(&scene, 1, disk);
        let bait = cluster.open("c1", "io1,bait", 65_536, OpenMode::Create);
        cluster.write("c1", bait, vec![(0, Bytes::from(vec![7; BAIT as usize]))]);
        let file = cluster.open("c1", "io1,a", 65_536, OpenMode::Create);
        let data = Bytes::from(pattern(LENGTH, 1));
        let mut neighbours = Neighbours { cluster, file, data };
        // The path finds its rate.
        neighbours.write();
        neighbours.read();
        neighbours
    }

    fn attack(&mut self, attack: Attack) {
        let io1 = self.cluster.world().member("io1");
        for name in ["h1", "h2"] {
            let member = self.cluster.world().member(name);
            self.cluster
                .world_mut()
                .act(member, |now, node, app| app.application_mut().hostile().begin(now, node, io1, attack));
        }
        self.cluster.world_mut().run_for(2 * SECOND);
    }

    fn since(&self, began: Time) -> f64 {
        self.cluster.world().now().since(began).as_secs_f64()
    }

    fn write(&mut self) -> f64 {
        let (began, list) = (self.cluster.world().now(), WriteList::new([(0, self.data.clone())]));
        let list = list.expect("possible");
        let receipt = self.cluster.start("c1", Write { file: self.file, list, durable: false });
        self.cluster.result(&receipt, 300 * SECOND).expect("it ends").expect("it succeeds");
        LENGTH as f64 / self.since(began)
    }

    fn read(&mut self) -> f64 {
        let (began, list) = (self.cluster.world().now(), ReadList::new([(0, LENGTH)]).expect("possible"));
        let receipt = self.cluster.start("c1", Read { file: self.file, list });
        let read = self.cluster.result(&receipt, 300 * SECOND).expect("it ends").expect("it succeeds");
        assert!(read.into_vec() == [self.data.clone()], "what was written is read");
        LENGTH as f64 / self.since(began)
    }

    fn fare(&mut self) -> Fare {
        let (read, write) = (self.read(), self.write());
        let ping = (0..20).map(|_| self.ping()).max().unwrap_or_default();
        Fare { read, write, ping }
    }

    fn ping(&mut self) -> Duration {
        let began = self.cluster.world().now();
        self.cluster.call("c1", Stat { file: self.file });
        self.cluster.world().now().since(began)
    }

    fn uses(&self) -> Vec<MemberUse> {
        let io1 = self.cluster.world().member("io1");
        let io_node = self.cluster.world().application(io1).application().io_node().expect("it serves");
        let uses = io_node.use_by_member();
        ["h1", "h2"]
            .map(|name| uses.get(&self.cluster.world().member(name)).copied().unwrap_or_default())
            .to_vec()
    }
}

/// How the honest member fares without and with others that do that; and what they have then.
fn compare(attack: Attack, disk: DiskPace) -> (Neighbours, Fare, Fare) {
    let quiet = Neighbours::new(disk).fare();
    let mut neighbours = Neighbours::new(disk);
    neighbours.attack(attack);
    let fare = neighbours.fare();
    let shares = [fare.read / quiet.read, fare.write / quiet.write];
    println!(
        "{attack:?}: reads at {:.2}, writes at {:.2} of the quiet rate, ping {:?} instead of {:?}; {:?}",
        shares[0],
        shares[1],
        fare.ping,
        quiet.ping,
        neighbours.uses()
    );
    (neighbours, quiet, fare)
}

/// The honest member wants less than its part of the disk, so its fair share is its quiet rate.
fn holds(attack: Attack) -> Neighbours {
    let (neighbours, quiet, fare) = compare(attack, DISK);
    assert!(fare.read >= 0.8 * quiet.read && fare.write >= 0.8 * quiet.write, "{fare:?} of {quiet:?}");
    assert!(fare.ping <= 3 * quiet.ping, "{fare:?} of {quiet:?}");
    neighbours
}

/// Two sessions that do not read once had all 64 MiB: a get took 30 s instead of one.
#[test]
fn members_that_read_and_take_nothing_leave_memory_to_others() {
    let neighbours = holds(Attack::ReadsWithoutTaking);
    let limit = IoNodeConfig::default().memory_bytes;
    let held: u64 = neighbours.uses().iter().map(|used| used.memory_bytes).sum();
    assert!(held > limit / 2 && held <= limit * 2 / 3 + (4 << 20), "{held}: they have as much as they may");
}

#[test]
fn members_that_read_crumbs_leave_the_disk_to_others() {
    holds(Attack::ReadsCrumbs);
}

#[test]
fn members_that_ask_for_sizes_all_the_time_leave_the_disk_to_others() {
    holds(Attack::Sizes);
}

#[test]
fn members_that_sync_all_the_time_leave_the_disk_to_others() {
    holds(Attack::Syncs);
}

#[test]
fn members_that_create_durably_all_the_time_leave_the_disk_to_others() {
    holds(Attack::DurableCreations);
}

/// Here all three want more than the disk has, and a third is what each should have.
#[test]
fn members_that_read_all_that_the_disk_gives_leave_others_their_part() {
    let disk = DiskPace { bytes_per_second: 30e6, ..DISK };
    let (_, _, fare) = compare(Attack::Reads, disk);
    let part = disk.bytes_per_second / 3.0;
    assert!(fare.read >= 0.8 * part && fare.write >= 0.8 * part, "{fare:?} of {part}");
}

/// A member that could read nothing but its own folder once ended the syncs of all.
#[test]
fn members_that_sync_what_is_not_there_do_not_end_the_syncs_of_others() {
    let mut neighbours = holds(Attack::SyncsOfNothing);
    neighbours.cluster.world_mut().run_for(10 * SECOND);
    let member = neighbours.cluster.world().member("h1");
    let asked =
        neighbours.cluster.world_mut().act(member, |_, _, app| app.application_mut().hostile().requests);
    assert!(asked > 5_000, "{asked} is more than can be told apart");
    neighbours.cluster.call("c1", Sync { file: neighbours.file });
}

#[test]
fn members_that_do_not_end_their_requests_leave_memory_to_those_of_others() {
    let neighbours = holds(Attack::HalfRequests);
    let limit = IoNodeConfig::default().request_bytes;
    assert!(neighbours.uses().iter().all(|used| used.request_bytes <= limit / 2));
}

/// What was asked for on a stream that was reset was once done all the same, before everybody's reads and writes.
#[test]
fn members_that_reset_their_requests_leave_nothing_to_do_behind() {
    holds(Attack::Resets);
}

/// Each failure once left a claim.
#[test]
fn members_that_claim_what_cannot_be_created_have_claimed_nothing() {
    let neighbours = holds(Attack::FailingClaims);
    assert!(neighbours.uses().iter().all(|used| used.claims <= used.transfers), "those under way");
}

#[test]
fn members_that_claim_all_that_they_may_leave_claims_to_others() {
    let mut neighbours = holds(Attack::Claims);
    neighbours.cluster.world_mut().run_for(10 * SECOND);
    assert!(neighbours.uses().iter().all(|used| used.claims == 4_096), "{:?}", neighbours.uses());
    neighbours.fare();
}

#[test]
fn members_that_publish_all_the_time_leave_turns_to_others() {
    holds(Attack::Publications);
}

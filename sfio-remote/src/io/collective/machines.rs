//! Groups of processes on several machines, which meet in a folder that all of them see and talk over QUIC.

use std::fs;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fec_transport::io::message::{Messenger, MessengerConfig, QuicConfig};
use fec_transport::keys::{Identity, decode_key, encode_key};
use fec_transport::message::Tag;
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::time::{Instant, sleep, timeout_at};

use super::join::JoinError;
use super::member::GroupMember;
use super::messages::join_group_over;

/// How often a rank looks whether another one has come.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// The messenger is the group's alone, and so is each tag.
const TAG: Tag = Tag(1);
/// No address of a rank is longer.
const LONGEST_ADDRESS: usize = 200;

/// Joins the group of `size` processes that meet in `folder`, as one of its ranks. They run on any machines that see the
/// folder, over NFS for example, and reach one another over UDP; `host` is the address of this machine under which the
/// others reach it. Whoever may enter the folder can take part, so that it should be the job's alone. Each rank has a key
/// of its own for as long as the group lasts, and nobody else is let in or can read along. What is left in the folder is
/// removed when the group is complete.
///
/// A rank that ends is lost to the others at once if its [`GroupMember`] is dropped, and within five seconds if its
/// process is killed or stopped, or its machine or network fails.
///
/// # Errors
/// If the rank is not one of the group's, `host` is no address of this machine, the folder cannot be written to, or the
/// others have not come within `patience`.
pub async fn join_group_at(
    host: IpAddr,
    folder: &Path,
    rank: u32,
    size: u32,
    patience: Duration,
) -> Result<GroupMember, JoinError> {
    if rank >= size {
        return Err(JoinError::NoSuchRank { rank, size });
    }
    let deadline = Instant::now() + patience;
    let no_host = |error| JoinError::Host { host, error };
    let socket = UdpSocket::bind((host, 0)).map_err(no_host)?;
    let identity = Identity::from_seed(random().map_err(JoinError::Thread)?);
    let address = socket.local_addr().map_err(no_host)?;
    let ours =
        Notice::put_up(folder, rank, &format!("{}@{address}", encode_key(&identity.public().ed25519)))?;
    let mut places: Vec<Option<Place>> = (0..size).map(|_| None).collect();
    if timeout_at(deadline, find(folder, &mut places)).await.is_err() {
        let missing = (0..size).filter(|other| places[*other as usize].is_none()).collect();
        return Err(JoinError::Missing { folder: folder.to_owned(), missing, after: patience });
    }
    let (peers, ranks): (Vec<_>, Vec<_>) =
        places.into_iter().flatten().map(|place| (place.key, place.address)).unzip();
    let messenger = Messenger::start(MessengerConfig::new().quic(QuicConfig { identity, socket, peers }))?;
    let left = deadline.saturating_duration_since(Instant::now());
    let member = join_group_over(&messenger, &ranks, rank, TAG, left).await;
    // Whoever has been heard has read all notices.
    drop(ours);
    member
}

/// Where the others find a rank: a file that is removed when this is dropped.
struct Notice {
    path: PathBuf,
}

impl Notice {
    /// It appears with all that it says, on file systems of several machines, too.
    fn put_up(folder: &Path, rank: u32, text: &str) -> Result<Notice, JoinError> {
        let (path, draft) = (notice(folder, rank), folder.join(format!(".rank-{rank}")));
        let put_up = || {
            fs::write(&draft, text)?;
            let linked = fs::hard_link(&draft, &path);
            fs::remove_file(&draft)?;
            linked
        };
        match put_up() {
            Ok(()) => Ok(Notice { path }),
            Err(error) => Err(JoinError::Socket { path, error }),
        }
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        // The next job may want the name; it says so if it is still there.
        let _ = fs::remove_file(&self.path);
    }
}

fn notice(folder: &Path, rank: u32) -> PathBuf {
    folder.join(format!("rank-{rank}"))
}

/// A rank, as its notice says.
struct Place {
    key: [u8; 32],
    address: String,
}

impl Place {
    /// None as long as there is no notice of a rank.
    fn read(path: &Path) -> Option<Place> {
        let text = fs::read_to_string(path).ok().filter(|text| text.len() <= LONGEST_ADDRESS)?;
        let key = decode_key(text.split_once('@')?.0).ok()?;
        Some(Place { key, address: format!("quic://{text}") })
    }
}

/// Ends when all ranks have put up their notices.
async fn find(folder: &Path, places: &mut [Option<Place>]) {
    loop {
        for (rank, place) in places.iter_mut().enumerate() {
            if place.is_none() {
                *place = Place::read(&notice(folder, rank as u32));
            }
        }
        if places.iter().all(Option::is_some) {
            return;
        }
        sleep(LOOK_INTERVAL).await;
    }
}

fn random() -> io::Result<[u8; 32]> {
    let mut seed = [0; 32];
    let drawn = SystemRandom::new().fill(&mut seed);
    drawn.map_err(|_| io::Error::other("the operating system gives no random numbers"))?;
    Ok(seed)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use bytes::Bytes;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);
    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn processes_that_see_one_folder_are_a_group_and_leave_nothing_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let ranks = (0..4_u32).map(|rank| {
            let folder = folder.path().to_owned();
            tokio::spawn(async move {
                let member = join_group_at(HERE, &folder, rank, 4, PATIENCE).await.expect("all come");
                let mine = Bytes::from(vec![rank as u8; 100_000]);
                let told = member.perform("tell".to_owned(), async { Ok(mine) }).await;
                told.expect("all are there")
            })
        });
        let expected: Vec<Bytes> = (0..4).map(|rank| vec![rank; 100_000].into()).collect();
        for told in ranks.collect::<Vec<_>>() {
            assert_eq!(told.await.expect("no panic"), expected);
        }
        assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 0);
    }

    #[tokio::test]
    async fn who_does_not_come_is_named_and_so_are_a_name_in_use_and_a_strange_address() {
        let folder = tempfile::tempdir().expect("a folder");
        let join = |host, rank| join_group_at(host, folder.path(), rank, 3, Duration::from_millis(200));
        let alone = join(HERE, 1).await.expect_err("nobody comes").to_string();
        assert!(alone.contains("these ranks have not come to") && alone.ends_with("[0, 2]"), "{alone}");
        assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 0);
        fs::write(folder.path().join("rank-0"), "").expect("possible");
        let taken = join(HERE, 0).await.expect_err("it is there").to_string();
        assert!(taken.contains("rank-0: ") && taken.contains("a folder of its own"), "{taken}");
        let none = join(HERE, 3).await.expect_err("ranks 0 to 2").to_string();
        assert_eq!(none, "rank 3 of a group of 3; ranks are counted from 0");
        // Of TEST-NET-1, which no machine has.
        let strange = join(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 2).await.expect_err("it is not ours");
        assert!(strange.to_string().starts_with("192.0.2.1: "), "{strange}");
    }
}

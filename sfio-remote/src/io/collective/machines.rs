//! Groups of processes on several machines, which meet in a folder that all of them see and talk over QUIC.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fec_transport::io::message::{Messenger, MessengerConfig, QuicConfig};
use fec_transport::keys::{Identity, decode_ed25519, encode_key};
use fec_transport::message::Tag;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout_at};

use super::join::{JoinError, check_rank, meeting_point};
use super::member::GroupMember;
use super::messages::{join_group_over, limits_for_group};
use crate::io::random::random;

/// How often a rank looks whether another one has come.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// The messenger is the group's alone, and so is each tag.
const TAG: Tag = Tag(1);
/// No notice is longer, in bytes.
const LONGEST_NOTICE: u64 = 200;

/// Joins the group of `size` processes that meet in `folder`, as one of its ranks. They run on any machines that see
/// the folder, over NFS for example, and reach one another over UDP; `host` is the address of this machine under which
/// the others reach it. Each rank draws a key for this group, and lets in those whose keys it finds in the folder:
/// whoever may write there can take part, so that it should be the job's alone. What is left in the folder is removed
/// when the group is complete.
///
/// A rank that [leaves](GroupMember::leave) is lost to the others at once, and one whose process ends without that, is
/// killed or stopped, or whose machine or network fails, within five seconds.
///
/// # Errors
/// If the rank is not one of the group's, `host` is no address of this machine that others can reach, the folder cannot
/// be written to, or the others have not come within `patience`.
pub async fn join_group_at(
    host: IpAddr,
    folder: &Path,
    rank: u32,
    size: u32,
    patience: Duration,
) -> Result<GroupMember, JoinError> {
    check_rank(rank, size)?;
    let deadline = Instant::now() + patience;
    let no_host = |error| JoinError::Host { host, error };
    let socket = bind(host).map_err(no_host)?;
    let identity = Identity::from_seed(random().map_err(|_| JoinError::Random)?);
    let address = socket.local_addr().map_err(no_host)?;
    let text = format!("{}@{address}", encode_key(&identity.public().ed25519));
    let ours = Notice::put_up(meeting_point(folder, rank), text).await?;
    let mut places = Places::new();
    if timeout_at(deadline, find(folder, size, &mut places)).await.is_err() {
        let missing = (0..size).filter(|other| !places.contains_key(other)).collect();
        return Err(JoinError::Missing { folder: folder.to_owned(), missing, after: patience });
    }
    let (peers, ranks): (Vec<_>, Vec<_>) =
        places.into_values().map(|place| (place.key, place.address)).unzip();
    let quic = QuicConfig { identity, socket, peers };
    let messenger = Messenger::start(MessengerConfig::new().limits(limits_for_group(size)).quic(quic))?;
    let left = deadline.saturating_duration_since(Instant::now());
    let joined = join_group_over(&messenger, &ranks, rank, TAG, left).await;
    // Whoever has been heard has read all notices.
    drop(ours);
    joined.map_err(|error| match error {
        JoinError::Silent { missing, .. } => JoinError::Silent { missing, after: patience },
        error => error,
    })
}

fn bind(host: IpAddr) -> io::Result<UdpSocket> {
    if host.is_unspecified() || host.is_multicast() {
        return Err(io::Error::other("nobody can be reached there"));
    }
    UdpSocket::bind((host, 0))
}

/// Where the others find a rank: a file that is removed when this is dropped.
struct Notice {
    path: PathBuf,
}

impl Notice {
    /// It appears with all that it says, and never in the place of another one.
    async fn put_up(path: PathBuf, text: String) -> Result<Notice, JoinError> {
        let put_up = move || match write(&path, &text) {
            Ok(()) => Ok(Notice { path }),
            Err(error) => Err(JoinError::Socket { path, error }),
        };
        spawn_blocking(put_up).await.unwrap_or_else(|failed| std::panic::resume_unwind(failed.into_panic()))
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut draft = tempfile::Builder::new().prefix(".rank-").tempfile_in(folder)?;
    draft.write_all(text.as_bytes())?;
    draft.persist_noclobber(path)?;
    Ok(())
}

impl Drop for Notice {
    fn drop(&mut self) {
        // The next job may want the name; it says so if it is still there.
        let _ = fs::remove_file(&self.path);
    }
}

/// A rank, as its notice says.
struct Place {
    key: [u8; 32],
    address: String,
}

/// Those ranks whose notices were found.
type Places = BTreeMap<u32, Place>;

impl Place {
    /// None as long as the notice does not say it.
    fn read(path: &Path) -> Option<Place> {
        let mut text = String::new();
        File::open(path).ok()?.take(LONGEST_NOTICE).read_to_string(&mut text).ok()?;
        let key = decode_ed25519(text.split_once('@')?.0).ok()?;
        Some(Place { key, address: format!("quic://{text}") })
    }
}

/// Ends when all ranks have put up their notices; the file system may take its time, and is asked on other threads.
async fn find(folder: &Path, size: u32, places: &mut Places) {
    loop {
        let missing: Vec<u32> = (0..size).filter(|rank| !places.contains_key(rank)).collect();
        if missing.is_empty() {
            return;
        }
        let folder = folder.to_owned();
        // A look that panics has shown it.
        let found = spawn_blocking(move || look(&folder, missing)).await.unwrap_or_default();
        if found.is_empty() {
            sleep(LOOK_INTERVAL).await;
        }
        places.extend(found);
    }
}

/// The folder is listed each time: a client of NFS believes for half a minute that a file is not there which it has
/// looked for by its name.
fn look(folder: &Path, missing: Vec<u32>) -> Places {
    let Ok(entries) = fs::read_dir(folder) else { return Places::new() };
    let listed: BTreeSet<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let paths = missing.into_iter().map(|rank| (rank, meeting_point(folder, rank)));
    let there = paths.filter(|(_, path)| listed.contains(path));
    there.filter_map(|(rank, path)| Some((rank, Place::read(&path)?))).collect()
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
        let nowhere = join(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 2).await.expect_err("it is nobody's");
        assert!(nowhere.to_string().starts_with("0.0.0.0: nobody can be reached there; "), "{nowhere}");
    }
}

//! Striped files on real sockets and real disks: a client, two relays and two I/O nodes on loopback.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use fec_transport::io::{EndpointConfig, Sockets};
use fec_transport::keys::{Identity, encode_key};
use fec_transport::overlay::Overlay;
use sfio_remote::client::{Durability, OpenMode, OperationError};
use sfio_remote::distribution::{StripeUnit, Structure};
use sfio_remote::io::{
    DiskAccess, FileError, MemberConfig, Observer, OpenOptions, SfioMember, StripedFile, Submission, Transfer,
};
use sfio_remote::io_node::{AccessRules, IoNodeConfig, Right};
use sfio_remote::name::FileName;
use sfio_remote::request::{FileView, Granularity, Pattern, ReadList, WriteList};
use tempfile::TempDir;

/// Everything on this machine is fast; a test that waits for so long waits for ever.
const PATIENCE: Duration = Duration::from_secs(30);

/// Members that run in this process, with their export roots in a temporary directory.
struct Cluster {
    overlay: Arc<Overlay>,
    members: Vec<(&'static str, SfioMember)>,
    directory: TempDir,
    notes: Arc<Notes>,
}

/// What the client and the I/O nodes have told of, a line for each read and write.
#[derive(Debug, Default)]
struct Notes(Mutex<Vec<String>>);

impl Notes {
    fn push(&self, note: String) {
        self.0.lock().expect("nobody panics with it").push(note);
    }
}

impl Observer for Notes {
    fn opened(&self, name: &FileName, length: u64, mode: OpenMode) {
        self.push(format!("open {name} {length} {mode:?}"));
    }

    fn closed(&self, name: &FileName) {
        self.push(format!("close {name}"));
    }

    fn transferred(&self, transfer: &Transfer<'_>) {
        for region in transfer.regions {
            let what = if transfer.is_write { "write" } else { "read" };
            self.push(format!("{what} {} {}", region.offset(), region.length()));
        }
    }

    fn at_disk(&self, access: &DiskAccess<'_>) {
        let bytes: u64 = access.extents.iter().map(|extent| extent.length()).sum();
        self.push(format!("disk {} {} {bytes}", access.is_write, access.path.as_str()));
    }
}

fn identity(name: &str) -> Identity {
    Identity::from_seed(blake3::derive_key("sfio-remote 2026 a member of a test", name.as_bytes()))
}

fn entry(name: &str, sockets: Option<&Sockets>) -> String {
    let keys = identity(name).public();
    let (ed25519, x25519) = (encode_key(&keys.ed25519), encode_key(&keys.x25519));
    let mut text = format!("[[member]]\nname = \"{name}\"\ned25519 = \"{ed25519}\"\nx25519 = \"{x25519}\"\n");
    if let Some(Sockets { control, data }) = sockets {
        let [control, data] = [control, data].map(|socket| socket.local_addr().expect("bound"));
        text += &format!("control = \"{control}\"\ndata = \"{data}\"\nrelay_for = [\"*\"]\n");
    }
    text
}

fn open_to_all() -> IoNodeConfig {
    IoNodeConfig { access: AccessRules::everyone(Right::ReadWrite), ..IoNodeConfig::default() }
}

impl Cluster {
    async fn start() -> Cluster {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let names = ["r1", "r2", "io1", "io2"];
        let sockets: Vec<_> = names.map(|name| (name, Sockets::bind(any, any).expect("a free port"))).into();
        let mut text = "serial = 1\n".to_owned() + &entry("client", None);
        text.extend(sockets.iter().map(|(name, sockets)| entry(name, Some(sockets))));
        for end in ["client", "io1", "io2"] {
            text.extend(["r1", "r2"].map(|relay| format!("[[link]]\na = \"{end}\"\nb = \"{relay}\"\n")));
        }
        let overlay = Arc::new(Overlay::parse(&text).expect("a right overlay"));
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut cluster = Cluster { overlay, members: Vec::new(), directory, notes: Arc::default() };
        for (name, sockets) in sockets {
            let export = name.starts_with("io").then(|| cluster.export(name));
            export.iter().for_each(|root| std::fs::create_dir(root).expect("possible"));
            cluster.run(name, Some(sockets), export).await;
        }
        cluster.run("client", None, None).await;
        cluster
    }

    async fn run(&mut self, name: &'static str, sockets: Option<Sockets>, export: Option<PathBuf>) {
        let mut endpoint = EndpointConfig::new(Arc::clone(&self.overlay), identity(name));
        endpoint.sockets = sockets;
        let member = SfioMember::start(
            endpoint,
            MemberConfig {
                export,
                io_node: open_to_all(),
                observer: Some(self.notes.clone()),
                ..MemberConfig::default()
            },
        )
        .await;
        self.members.push((name, member.expect("it starts")));
    }

    fn export(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn take(&mut self, name: &str) -> SfioMember {
        let index = self.members.iter().position(|(other, _)| *other == name).expect("it runs");
        self.members.swap_remove(index).1
    }

    fn client(&self) -> &SfioMember {
        &self.members.iter().find(|(name, _)| *name == "client").expect("it runs").1
    }
}

fn name(text: &str) -> FileName {
    text.parse().expect("a right name")
}

fn unit(bytes: u64) -> StripeUnit {
    StripeUnit::new(bytes).expect("in range")
}

/// Runs a test with a limit on its time.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let limited = async { tokio::time::timeout(PATIENCE, test).await };
    runtime.expect("a runtime").block_on(limited).expect("the test ends in time");
}

#[test]
fn a_file_lives_its_life() {
    run(async {
        let cluster = Cluster::start().await;
        let client = cluster.client().client();
        let hello = name("io1,/tmp/a1.dat;io2,/tmp/a2.dat;");
        let file = StripedFile::create(client, &hello, unit(5)).await.expect("possible");
        file.write_at(0, "Hello World").await.expect("possible");
        file.sync_all().await.expect("possible");
        let subfile = |member: &str, path: &str| std::fs::read(cluster.export(member).join(path)).ok();
        assert_eq!(subfile("io1", "tmp/a1.dat"), Some(b"Hellod".to_vec()));
        assert_eq!(subfile("io2", "tmp/a2.dat"), Some(b" Worl".to_vec()));
        assert_eq!(file.read_at(6, 100).await, Ok(Bytes::from_static(b"World")));
        let short = FileError::EndOfFile { offset: 6, length: 9, missing: 4 };
        assert_eq!(file.read_exact_at(6, 9).await, Err(short));
        file.write_list([(20, "far".into()), (0, "J".into())]).await.expect("possible");
        let read = file.read_list([(0, 5), (11, 100)]).await.expect("possible");
        assert_eq!(read, ["Jello", "\0\0\0\0\0\0\0\0\0far"]);
        file.set_len(7).await.expect("possible");
        assert_eq!(file.stat().await.expect("possible").structure(), Structure::Intact { length: 7 });
        let moved = name("io1,b;io2,b");
        client.rename(&hello, &moved, false, Durability::OnEveryCall).await.expect("possible");
        let file = StripedFile::open(client, &moved, unit(5)).await.expect("possible");
        assert_eq!(file.read_at(0, 100).await, Ok(Bytes::from_static(b"Jello W")));
        client.remove(&moved, Durability::OnFlush).await.expect("possible");
        let gone = StripedFile::open(client, &moved, unit(5)).await.expect_err("gone");
        assert_eq!(gone.to_string(), "io1,b;io2,b;: no such file");
        assert_eq!(
            client.error_counters("io1", true).await.expect("possible").iter().map(|(_, n)| n).sum::<u64>(),
            1
        );
    });
}

/// Programs without tasks, such as those in C, drop their files on threads of their own: the member once kept all that
/// they had ever opened.
#[test]
fn a_file_that_a_thread_drops_is_closed() {
    run(async {
        let cluster = Cluster::start().await;
        let client = cluster.client().client();
        let open_files =
            async || client.handle().inspect(|_, app| app.as_client().open_files()).await.expect("it runs");
        let file = StripedFile::create(client, &name("io1,a;io2,a"), unit(5)).await.expect("possible");
        assert_eq!(open_files().await, 1);
        std::thread::spawn(move || drop(file)).join().expect("no panic");
        while open_files().await > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn an_observer_hears_of_each_region_and_of_what_the_disks_do() {
    run(async {
        let cluster = Cluster::start().await;
        let (name, client) = (name("io1,seen;io2,seen"), cluster.client().client());
        let file = StripedFile::create(client, &name, unit(100)).await.expect("it is made");
        let pieces = [(0, vec![1; 100].into()), (500, vec![2; 70].into())];
        file.write_list(pieces).await.expect("it is written");
        file.read_at(40, 30).await.expect("it is read");
        assert!(file.read_exact_at(5_000, 10).await.is_err());
        drop(file);
        let notes: Vec<String> = std::mem::take(&mut *cluster.notes.0.lock().expect("nobody panics with it"));
        let (disk, calls): (Vec<_>, Vec<_>) = notes.into_iter().partition(|note| note.starts_with("disk"));
        let expected = [
            "open io1,seen;io2,seen; 0 Truncate",
            "write 0 100",
            "write 500 70",
            "read 40 30",
            "read 5000 10",
            "close io1,seen;io2,seen;",
        ];
        assert_eq!(calls, expected);
        // The first stripe is on the first I/O node, the sixth on the second one.
        for line in ["disk true seen 100", "disk true seen 70", "disk false seen 30"] {
            assert!(disk.iter().any(|note| note == line), "{line}: {disk:?}");
        }
    });
}

#[test]
fn megabytes_in_small_stripes_are_read_back_equal_by_a_process_of_its_own() {
    run(async {
        let mut cluster = Cluster::start().await;
        let data: Bytes =
            (0..16_u64 << 20).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
        let file = name("io1,a;io2,a;io1,b");
        {
            let options = OpenOptions::new().mode(OpenMode::Create).stripe_unit(unit(200));
            let file = options.open(cluster.client().client(), &file).await.expect("possible");
            file.write_at(0, data.clone()).await.expect("possible");
        }
        cluster.take("client").shutdown().await.expect("it ran");
        cluster.run("client", None, None).await;
        let file = StripedFile::open(cluster.client().client(), &file, unit(200)).await.expect("possible");
        assert_eq!(file.stat_when_opened().length(), data.len() as u64);
        assert_eq!(file.read_exact_at(0, data.len() as u64).await, Ok(data));
    });
}

/// The deterministic permutation of a shuffled list's places.
fn shuffled(count: u64) -> impl Iterator<Item = u64> + Clone {
    (0..count).map(move |i| i * 7_919 % count)
}

#[test]
fn lists_patterns_and_single_stripes_all_tell_the_same_bytes() {
    run(async {
        let cluster = Cluster::start().await;
        let client = cluster.client().client();
        let file = StripedFile::create(client, &name("io1,a;io2,a;io1,b"), unit(75)).await.expect("possible");
        let content: Bytes = (0..60_000_u64).map(|i| (i * i % 251) as u8).collect();
        let pieces = shuffled(6_000).map(|i| (i * 10, content.slice(i as usize * 10..i as usize * 10 + 10)));
        file.write_list(pieces.clone()).await.expect("possible");
        let read = file.read_list(shuffled(6_000).map(|i| (i * 10, 10))).await.expect("possible");
        assert!(read.into_iter().eq(pieces.map(|(_, data)| data)));

        // Every third byte of the file into every second of the memory.
        let byte = Pattern::bytes(1).expect("possible");
        let (third, second) =
            (byte.clone().resized(3).expect("possible"), byte.resized(2).expect("possible"));
        let view = FileView { origin: 0, pattern: &third, skipped: 100 };
        let memory = BytesMut::from(&[b'.'; 2_000][..]);
        let list = ReadList::patterned(&view, &second, 1_000, memory).expect("possible");
        let (memory, present) = file.read(list).await.expect("possible").into_memory();
        let expected = (0..2_000).map(|i| if i % 2 == 0 { content[300 + i / 2 * 3] } else { b'.' });
        assert!(memory.iter().copied().eq(expected));
        assert_eq!(present, 1_000);
        let list = WriteList::patterned(&view, &second, 1_000, vec![b'!'; 2_000].into()).expect("possible");
        file.write(list).await.expect("possible");
        let mut expected = content.to_vec();
        expected[300..3_300].iter_mut().step_by(3).for_each(|byte| *byte = b'!');
        assert_eq!(file.read_exact_at(0, 60_000).await.expect("possible"), expected);

        let list = WriteList::new([(1_003, content.slice(..30_000))]).expect("possible");
        file.write(list.granularity(Granularity::Stripe)).await.expect("possible");
        expected[1_003..31_003].copy_from_slice(&content[..30_000]);
        let list = ReadList::new([(0, 70_000)]).expect("possible").granularity(Granularity::Stripe);
        assert_eq!(file.read(list).await.expect("possible").into_vec(), [expected]);
        assert_eq!(file.fsck().await.expect("possible"), Structure::Intact { length: 60_000 });
    });
}

#[test]
fn submissions_end_by_themselves_and_cancelled_ones_leave_nothing_at_the_io_nodes() {
    run(async {
        let cluster = Cluster::start().await;
        let file = StripedFile::create(cluster.client().client(), &name("io1,a;io2,a"), unit(200)).await;
        let file = file.expect("possible");
        let list = |i: u64, bytes: usize| {
            WriteList::new([(i << 20, vec![i as u8; bytes].into())]).expect("possible")
        };
        let mut writes: Vec<_> = (0..8).map(|i| file.submit_write(list(i, 1_000))).collect();
        let mut done = 0;
        while done < writes.len() {
            for (index, result) in Submission::test_some(&mut writes).await {
                assert_eq!(result, Ok(()), "write {index}");
                done += 1;
            }
            tokio::task::yield_now().await;
        }
        assert!(writes.iter().all(Submission::is_taken));
        let cancelled = file.submit_write(list(9, 64 << 20)).cancel().await.expect_err("64 MiB take longer");
        assert_eq!(cancelled, FileError::Operation(OperationError::Cancelled));
        assert_eq!(file.read_exact_at(3 << 20, 1_000).await.expect("possible"), [3; 1_000][..]);
        for io_node in ["io1", "io2"] {
            let member = &cluster.members.iter().find(|(name, _)| *name == io_node).expect("it runs").1;
            let rest = || {
                member
                    .endpoint()
                    .handle()
                    .inspect(|_, app| app.io_node().map(|node| (node.transfer_count(), node.memory_used())))
            };
            // The resets are on their way.
            while rest().await.expect("it runs") != Some((0, 0)) {
                tokio::task::yield_now().await;
            }
        }
        let counters = file.error_counters(true).await.expect("possible");
        assert_eq!(counters.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["io1", "io2"]);
    });
}

#[test]
fn what_one_process_has_claimed_no_other_may_change_until_it_has_its_name() {
    run(async {
        let mut cluster = Cluster::start().await;
        cluster.run("client", None, None).await;
        let clients: Vec<_> = cluster.members.iter().filter(|(name, _)| *name == "client").collect();
        let [one, two] = [clients[0].1.client(), clients[1].1.client()];
        let (part, whole) = (name("io1,x.part;io2,x.part"), name("io1,x;io2,x"));
        let claim = OpenOptions::new().mode(OpenMode::Claim).stripe_unit(unit(5));
        let file = claim.open(one, &part).await.expect("nobody else wants it");
        let refused = |error: FileError| {
            assert!(error.to_string().contains("another process is writing it"), "{error}");
        };
        refused(claim.open(two, &part).await.expect_err("claimed"));
        refused(two.remove(&part, Durability::OnFlush).await.expect_err("claimed"));
        file.write_at(0, "Hello World").await.expect("it is ours");
        one.rename(&part, &whole, false, Durability::OnFlush).await.expect("it is ours");
        claim.open(two, &part).await.expect("it is free").write_at(0, "other").await.expect("it is ours");
        let file = StripedFile::open(one, &whole, unit(5)).await.expect("it is there");
        assert_eq!(file.read_at(0, 20).await, Ok(Bytes::from_static(b"Hello World")));
    });
}

#[test]
fn six_gibibytes_of_almost_nothing_take_little_disk() {
    run(async {
        let cluster = Cluster::start().await;
        let file = StripedFile::create(cluster.client().client(), &name("io1,a;io2,a"), unit(200)).await;
        let file = file.expect("possible");
        const FAR: u64 = 6 << 30;
        file.write_list([(FAR, "far".into()), ((4 << 30) - 2, "four".into())]).await.expect("possible");
        assert_eq!(file.fsck().await.expect("possible"), Structure::Intact { length: FAR + 3 });
        let read = file.read_list([((4 << 30) - 4, 8), (FAR - 2, 10), (5 << 30, 3)]).await.expect("possible");
        assert_eq!(read, ["\0\0four\0\0", "\0\0far", "\0\0\0"]);
        let on_disk = |member: &str| {
            let metadata = std::fs::metadata(cluster.export(member).join("a")).expect("it is there");
            (metadata.len(), std::os::unix::fs::MetadataExt::blocks(&metadata) * 512)
        };
        for (size, used) in ["io1", "io2"].map(on_disk) {
            assert!(size > (3 << 30) - 1_000 && used < 1 << 20, "{used} bytes on the disk for {size}");
        }
    });
}

#[test]
fn three_members_that_write_at_once_lie_on_the_disks_as_in_the_paper() {
    run(async {
        let mut cluster = Cluster::start().await;
        cluster.run("client", None, None).await;
        cluster.run("client", None, None).await;
        let clients = cluster.members.iter().filter(|(name, _)| *name == "client");
        let mut writes = tokio::task::JoinSet::new();
        for (rank, (_, member)) in (0..).zip(clients) {
            let client = member.client().clone();
            writes.spawn(async move {
                let options = OpenOptions::new().mode(OpenMode::Create).stripe_unit(unit(5));
                let file = options.open(&client, &name("io1,/tmp/a.dat;io2,/tmp/a.dat;")).await?;
                file.write_at(13 * rank, "Hello*World!*").await
            });
        }
        assert_eq!(writes.len(), 3);
        while let Some(written) = writes.join_next().await {
            written.expect("no panic").expect("possible");
        }
        let subfile = |member: &str| std::fs::read(cluster.export(member).join("tmp/a.dat")).expect("there");
        assert_eq!(subfile("io1"), b"Hellod!*Heorld!o*Wor");
        assert_eq!(subfile("io2"), b"*Worlllo*W*Hellld!*");
    });
}

#[test]
fn an_io_node_that_ends_is_named() {
    run(async {
        let mut cluster = Cluster::start().await;
        let options = OpenOptions::new().mode(OpenMode::Create).stripe_unit(unit(1_000));
        let file = options.open(cluster.client().client(), &name("io1,a;io2,a")).await.expect("possible");
        cluster.take("io2").shutdown().await.expect("it ran");
        let error = file.write_at(0, vec![7; 1 << 20]).await.expect_err("io2 is gone");
        let names_io2 = |member: &String| member == "io2";
        assert!(
            matches!(&error, FileError::Operation(OperationError::SessionClosed { member, .. }) if names_io2(member)),
            "{error}"
        );
    });
}

#[test]
fn whoever_waits_when_the_process_ends_is_told() {
    run(async {
        let mut cluster = Cluster::start().await;
        let client = cluster.client().client().clone();
        let file = StripedFile::create(&client, &name("io1,a;io2,a"), unit(1_000)).await.expect("possible");
        let write = tokio::spawn(async move { file.write_at(0, vec![7; 64 << 20]).await });
        cluster.take("client").shutdown().await.expect("it ran");
        let error = write.await.expect("no panic").expect_err("it was cut off");
        let told = matches!(
            &error,
            FileError::Ended(_) | FileError::Operation(OperationError::SessionClosed { .. })
        );
        assert!(told, "{error}");
        assert!(matches!(client.error_counters("io1", false).await, Err(FileError::Ended(_))));
    });
}

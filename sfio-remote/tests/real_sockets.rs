//! Striped files on real sockets and real disks: a client, two relays and two I/O nodes on loopback.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fec_transport::io::{EndpointConfig, Sockets};
use fec_transport::keys::{Identity, encode_key};
use fec_transport::overlay::Overlay;
use sfio_remote::client::{Durability, OpenMode, OperationError};
use sfio_remote::distribution::{StripeUnit, Structure};
use sfio_remote::io::{FileError, MemberConfig, OpenOptions, SfioMember, StripedFile};
use sfio_remote::name::FileName;
use tempfile::TempDir;

/// Everything on this machine is fast; whoever waits for so long waits for ever.
const PATIENCE: Duration = Duration::from_secs(30);

/// Members that run in this process, with their export roots in a temporary directory.
struct Cluster {
    overlay: Arc<Overlay>,
    members: Vec<(&'static str, SfioMember)>,
    directory: TempDir,
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
        let mut cluster = Cluster { overlay, members: Vec::new(), directory };
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
        let member = SfioMember::start(endpoint, MemberConfig { export, ..MemberConfig::default() }).await;
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

#!/usr/bin/env python3
"""Two hosts with several links between them: sfio put and get beside MPTCP, TCP and rsync, and a link that dies.

The hosts are network namespaces of this machine, so it needs root, and what it makes goes with it. Each link carries
100 Mbit/s of IP packets, takes 25, 40 or 15 ms each way, loses 2 % of the packets each way, and queues 50 ms; there is no
relay. Where the kernel has netem (`modprobe sch_netem`), the links are pairs of virtual Ethernet devices with netem;
elsewhere `netsim cable` carries the packets between TUN devices, by the same model.

    sfio-remote/benches/uplinks.py --programs target/release --size 1GiB
    sfio-remote/benches/uplinks.py --programs target/release --size 100MiB --only put,mptcp --json

Shares are of the limit after headers, rate x (1 - loss) x 1384/1476 over the three links: that of each second from the
third one on, and that of the whole command. TCP, and rsync over it, has one of the links, the best one.

    sfio-remote/benches/uplinks.py --programs target/release --failover

is the failover run of a published multipath VPN: 300 Mbit/s at 10 ms and 80 Mbit/s at 30 ms, a put for 60 s, the first
link dead from 20 to 40 s. Nobody tells the hosts of it: their devices stay up, and nothing comes out at the other end.

    sfio-remote/benches/uplinks.py --programs target/release --removal --size 400MiB

removes one of the three interfaces of the sending host in the middle of a put, each in turn, and counts what is sent
beyond a put that nothing disturbs.
"""

import argparse
import collections
import fcntl
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

QUEUE_MS = 50
Link = collections.namedtuple("Link", "rate_mbit delay_ms loss")
THREE_LINKS = [Link(100, delay_ms, 0.02) for delay_ms in [25, 40, 15]]
# Of the three links, the one with the shortest round trip.
BEST = 2
FAILOVER_LINKS = [Link(300, 5, 0.001), Link(80, 15, 0.001)]
# In seconds since the transfer's start: when the first link dies, when it is back, and when all ends.
DIES_S, RETURNS_S, ENDS_S = 20, 40, 60
# In seconds since the cables' start: by then the member at the other end listens.
SETTLED_S = 5
# In seconds since the transfer's start: when an interface is removed.
REMOVED_S = 5


def limit_bps(links):
    return sum(link.rate_mbit * 1e6 * (1 - link.loss) for link in links) * 1384 / 1476


LIMIT_BPS = limit_bps(THREE_LINKS)

HOSTS = ["a", "b"]
CONTROL_PORT, DATA_PORT, TCP_PORT, RSYNC_PORT = 7000, 7001, 7002, 7003

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
MPTCP = 262
# What is measured over one second is not that of the first two.
STEADY_FROM_S = 2.0
POLL_S = 0.05


def run(command, **options):
    return subprocess.run(command, check=True, text=True, capture_output=True, **options).stdout


def try_run(command):
    return subprocess.run(command, capture_output=True).returncode == 0


def address(link, host):
    return f"10.77.{link}.{1 + HOSTS.index(host)}"


class Hosts:
    """The two namespaces, with the links between them.

    Where `records` is a folder, all links are cables that write there what they carried, and the first one is dead for
    a while.
    """

    def __init__(self, netsim, links, records=None):
        self.prefix = f"uplinks-{os.getpid()}"
        self.links, self.records = links, records
        self.cables = []
        self.emulation = None
        self.netsim = netsim
        self.started = None

    def name(self, host):
        return f"{self.prefix}-{host}"

    def command(self, host, command):
        return ["ip", "netns", "exec", self.name(host), *map(str, command)]

    def __enter__(self):
        for host in HOSTS:
            run(["ip", "netns", "add", self.name(host)])
            run(["ip", "-n", self.name(host), "link", "set", "lo", "up"])
        self.emulation = "netem" if self.records is None and self.has_netem() else "netsim cable"
        self.started = time.monotonic()
        for link, model in enumerate(self.links):
            (self.lay_veth if self.emulation == "netem" else self.lay_cable)(link, model)
            for host in HOSTS:
                device = self.device(link, host)
                run(["ip", "-n", self.name(host), "addr", "add", f"{address(link, host)}/24", "dev", device])
                run(["ip", "-n", self.name(host), "link", "set", device, "mtu", "1500", "up"])
        return self

    def __exit__(self, *_):
        for cable in self.cables:
            cable.kill()
        for host in HOSTS:
            try_run(["ip", "netns", "del", self.name(host)])

    @staticmethod
    def device(link, host):
        return f"{host}{link}"

    def has_netem(self):
        return try_run(self.command("a", ["tc", "qdisc", "add", "dev", "lo", "root", "netem"])) and try_run(
            self.command("a", ["tc", "qdisc", "del", "dev", "lo", "root"])
        )

    def lay_veth(self, link, model):
        ends = [self.device(link, host) for host in HOSTS]
        run(["ip", "-n", self.name("a"), "link", "add", ends[0], "type", "veth", "peer", "name", ends[1],
             "netns", self.name("b")])
        # netem queues what is on the way, too.
        packets = int(model.rate_mbit * 1e6 * (model.delay_ms + QUEUE_MS) / 1e3 / 8 / 1500)
        for host, end in zip(HOSTS, ends):
            run(self.command(host, ["ethtool", "-K", end, "gso", "off", "tso", "off"]) if shutil.which("ethtool") else
                ["ip", "-n", self.name(host), "link", "set", end, "gso_max_segs", "1"])
            run(self.command(host, ["tc", "qdisc", "add", "dev", end, "root", "netem", "limit", packets, "delay",
                                    f"{model.delay_ms}ms", "loss", f"{model.loss:%}",
                                    "rate", f"{model.rate_mbit}mbit"]))

    def lay_cable(self, link, model):
        ends = []
        for host in HOSTS:
            # The program attaches to a device here, which then moves to its host and stays attached.
            end = os.open("/dev/net/tun", os.O_RDWR)
            name = f"{self.device(link, host)}-{os.getpid()}"[:15]
            fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
            run(["ip", "link", "set", name, "netns", self.name(host), "name", self.device(link, host)])
            run(["ip", "-n", self.name(host), "link", "set", self.device(link, host), "txqueuelen", "1000"])
            ends.append(end)
        command = [self.netsim, "cable", "--rate", f"{model.rate_mbit}Mbit/s", "--delay", f"{model.delay_ms}ms",
                   "--loss", str(model.loss), "--queue", f"{QUEUE_MS}ms", "--seed", str(link + 1)]
        if self.records is not None:
            command += ["--record", self.record(link)]
            if link == 0:
                command += ["--outage", f"{SETTLED_S + DIES_S}s..{SETTLED_S + RETURNS_S}s"]
        self.cables.append(subprocess.Popen(command, stdin=ends[0], stdout=ends[1]))
        for end in ends:
            os.close(end)

    def record(self, link):
        return self.records / f"link{link}.json"

    def recorded(self, link):
        """What a cable carried forth, line by line; times are since the transfer's start."""
        lines = [json.loads(line) for line in self.record(link).read_text().splitlines() if line.endswith("}")]
        forth = [line for line in lines if line["direction"] == "forth"]
        lasted = [line["at_s"] - before["at_s"] for before, line in zip([{"at_s": 0}, *forth], forth)]
        return [line | {"at_s": line["at_s"] - SETTLED_S, "mbps": 8 * line["delivered_bytes"] / 1e6 / seconds}
                for line, seconds in zip(forth, lasted)]

    def sent(self, host):
        """Bytes that a host has sent, by link; without those whose interface is gone."""
        devices = json.loads(run(["ip", "-n", self.name(host), "-s", "-j", "link"]))
        by_name = {device["ifname"]: device["stats64"]["tx"]["bytes"] for device in devices}
        names = {link: self.device(link, host) for link in range(len(self.links))}
        return {link: by_name[name] for link, name in names.items() if name in by_name}

    def remove(self, link, host):
        run(["ip", "-n", self.name(host), "link", "del", self.device(link, host)])

    def start(self, host, command, **options):
        return subprocess.Popen(self.command(host, command), **options)

    def use_bbr(self):
        for host in HOSTS:
            for kind in ["tcp_rmem", "tcp_wmem"]:
                # Several times what the links hold, so that it is not the buffers that are measured.
                run(self.command(host, ["sysctl", "-qw", f"net.ipv4.{kind}=4096 131072 33554432"]))
        return all(
            try_run(self.command(host, ["sysctl", "-qw", "net.ipv4.tcp_congestion_control=bbr"])) for host in HOSTS
        )

    def subflows(self):
        """How many further subflows MPTCP has opened so far."""
        lines = run(self.command("a", ["cat", "/proc/net/netstat"])).splitlines()
        names, values = [line.split() for line in lines if line.startswith("MPTcpExt:")]
        return int(dict(zip(names, values)).get("MPJoinSynAckRx", 0))

    def use_mptcp(self):
        for host in HOSTS:
            if not try_run(self.command(host, ["sysctl", "-qw", "net.mptcp.enabled=1"])):
                return False
            run(["ip", "-n", self.name(host), "mptcp", "limits", "set", "subflow", "8", "add_addr_accepted", "8"])
        for link in range(len(self.links)):
            if link != BEST:
                run(["ip", "-n", self.name("b"), "mptcp", "endpoint", "add", address(link, "b"), "signal"])
        return True


def overlay(folder, sfio, links):
    """Writes what two members need that have these links between them; gives their config files."""
    # Where nothing else is said, members are reached over this link.
    usual = len(links) - 1
    configs, text = {}, "serial = 1\n"
    for host in HOSTS:
        home = folder / host
        home.mkdir()
        keys = [line for line in run([sfio, "keygen", home / "key"]).splitlines() if "=" in line]
        text += f"[[member]]\nname = \"{host}\"\n" + "\n".join(keys) + "\n"
        text += f"control = \"{address(usual, host)}:{CONTROL_PORT}\"\ndata = \"{address(usual, host)}:{DATA_PORT}\"\n"
        configs[host] = home / "config.toml"
        export = "" if host == "a" else "export = \"export\"\n[access]\na = \"read-write\"\n"
        configs[host].write_text(f"overlay = \"../overlay.toml\"\nmember = \"{host}\"\nkey = \"key\"\n{export}")
    (folder / "b" / "export").mkdir()
    for link, model in enumerate(links):
        text += f"[[link]]\na = \"a\"\nb = \"b\"\nname = \"link{link}\"\ncapacity_mbit = {model.rate_mbit}\n"
        text += f"delay_ms = {model.delay_ms}\nloss = {model.loss}\n"
        for end in HOSTS:
            text += f"{end}_from = \"{address(link, end)}\"\n{end}_at = \"{address(link, end)}\"\n"
    (folder / "overlay.toml").write_text(text)
    return configs


def stored(folder):
    """Bytes of all files beneath a folder that have been written, wherever in their files they are."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_blocks * 512 if path.is_file() else 0
        except FileNotFoundError:
            pass
    return total


def measure(process, folder, size, limit_s):
    """Waits for a command whose bytes arrive in a folder; gives its row."""
    before, started, samples = stored(folder), time.monotonic(), []
    while process.poll() is None:
        now = time.monotonic() - started
        samples.append((now, min(size, stored(folder) - before)))
        if now > limit_s:
            process.kill()
            return {"failed": f"did not end within {limit_s} s"}
        time.sleep(POLL_S)
    took = time.monotonic() - started
    if process.returncode != 0:
        return {"failed": f"ended with code {process.returncode}"}
    late = [sample for sample in samples if sample[0] >= STEADY_FROM_S]
    row = {"seconds": took, "mbps": 8 * size / took / 1e6, "share_of_limit": 8 * size / took / LIMIT_BPS}
    # The last piece may be on the disk some time before the command has ended.
    arrived = next((sample for sample in late if sample[1] >= 0.98 * size), late[-1] if late else None)
    if arrived and arrived[0] > late[0][0] + 1:
        steady = 8 * (arrived[1] - late[0][1]) / (arrived[0] - late[0][0])
        row |= {"steady_mbps": steady / 1e6, "steady_share_of_limit": steady / LIMIT_BPS}
    return row


def tcp_receiver(arguments):
    """One connection's bytes into a file."""
    protocol, host, path = int(arguments[0]), arguments[1], arguments[2]
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # MPTCP's further subflows come to the host's other addresses.
        listener.bind((host if protocol != MPTCP else "0.0.0.0", TCP_PORT))
        listener.listen()
        connection, _ = listener.accept()
        with connection, open(path, "wb", buffering=0) as file:
            while piece := connection.recv(1 << 20):
                file.write(piece)
            os.fsync(file.fileno())
            connection.sendall(b"!")


def tcp_sender(arguments):
    """A file over one connection, until the other side says that it has all of it."""
    protocol, host, path = int(arguments[0]), arguments[1], arguments[2]
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol) as connection, open(path, "rb") as file:
        connection.connect((host, TCP_PORT))
        while piece := file.read(1 << 20):
            connection.sendall(piece)
        connection.shutdown(socket.SHUT_WR)
        if connection.recv(1) != b"!":
            sys.exit("the receiver has ended")


def make_file(path, size):
    """A file of random bytes, which nothing can compress."""
    with open(path, "wb") as file:
        for start in range(0, size, 1 << 20):
            file.write(os.urandom(min(1 << 20, size - start)))


class Member:
    """sfio's member at host b, as long as it is entered."""

    def __init__(self, sfio, hosts, folder):
        self.sfio, self.hosts, self.folder, self.process = sfio, hosts, folder, None
        self.configs = overlay(folder, sfio, hosts.links)

    def __enter__(self):
        log = open(self.folder / "member.log", "w")
        command = [self.sfio, "member", "--config", self.configs["b"]]
        self.process = self.hosts.start("b", command, stdout=subprocess.PIPE, stderr=log)
        self.process.stdout.readline()
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def start(self, command, *operands):
        """A command of sfio at host a."""
        return self.hosts.start("a", [self.sfio, command, "--config", self.configs["a"], *operands])


class Failover:
    """A put over two links, of which the first one is dead for a while."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder

    def run(self):
        """What was stored each second, and what the two links carried and queued."""
        # The hosts' clock starts with their cables; what takes long comes before.
        make_file(self.folder / "source", int(1.1 * ENDS_S * limit_bps(FAILOVER_LINKS) / 8))
        with Hosts(self.options.programs / "netsim", FAILOVER_LINKS, self.folder) as hosts:
            with Member(self.options.programs / "sfio", hosts, self.folder) as member:
                time.sleep(SETTLED_S - (time.monotonic() - hosts.started))
                put = member.start("put", self.folder / "source", "b,file")
                seconds = list(self.each_second(put, hosts.started + SETTLED_S))
                put.kill()
                put.wait()
                records = [hosts.recorded(link) for link in range(len(FAILOVER_LINKS))]
        return self.row(seconds, records)

    def each_second(self, put, started):
        before = stored(self.folder / "b" / "export")
        for second in range(1, ENDS_S + 1):
            time.sleep(max(0, started + second - time.monotonic()))
            if put.poll() is not None:
                sys.exit(f"the put ended after {second} s with code {put.returncode}")
            now = stored(self.folder / "b" / "export")
            yield 8 * (now - before) / 1e6
            before = now

    @staticmethod
    def row(seconds, records):
        """The figures that count, and the seconds they come from."""
        after = [line for line in records[0] if line["at_s"] > RETURNS_S]
        back = next((line["at_s"] - RETURNS_S for line in after
                     if line["mbps"] >= 0.9 * FAILOVER_LINKS[0].rate_mbit), None)
        queues = [[(line["at_s"], line["queue_ms"]) for line in record if 0 < line["at_s"] <= ENDS_S]
                  for record in records]
        return {
            "stored_mbps": [round(rate, 1) for rate in seconds],
            "least_second_mbps": min(seconds),
            "mbps_before": sum(seconds[2:DIES_S]) / (DIES_S - 2),
            "mbps_dead": sum(seconds[DIES_S + 1:RETURNS_S]) / (RETURNS_S - DIES_S - 1),
            "mbps_after": sum(seconds[RETURNS_S + 1:]) / (ENDS_S - RETURNS_S - 1),
            "first_link_back_s": back,
            "first_link_after_mbps": [round(line["mbps"]) for line in after[:20]],
            "queue_peak_ms": [max(queue for _, queue in link) for link in queues],
            "queue_peak_from_3rd_s_ms": [max(queue for at_s, queue in link if at_s > STEADY_FROM_S) for link in queues],
            "queue_mean_ms": [sum(queue for _, queue in link) / len(link) for link in queues],
        }


class Removal:
    """Puts over three links, of which one is removed at the sender."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.source = folder / "source"
        make_file(self.source, options.size)

    def rows(self):
        undisturbed = self.put("undisturbed", None)
        yield "undisturbed", undisturbed
        for link, model in enumerate(THREE_LINKS):
            row = self.put(f"without-{link}", link)
            # What a full link holds: a round trip until the sender may know of it, and its queue.
            content = model.rate_mbit * 1e6 / 8 * (2 * model.delay_ms + QUEUE_MS) / 1e3
            beyond = row["sent_mb"] - undisturbed["sent_mb"]
            yield f"link{link} removed", row | {"beyond_mb": beyond, "content_mb": content / 1e6}

    def put(self, name, gone):
        folder = self.folder / name
        folder.mkdir()
        with Hosts(self.options.programs / "netsim", THREE_LINKS) as hosts:
            with Member(self.options.programs / "sfio", hosts, folder) as member:
                started = time.monotonic()
                put = member.start("put", self.source, "b,file")
                removed = {} if gone is None else self.remove(hosts, gone)
                if put.wait() != 0:
                    sys.exit(f"{name}: the put ended with code {put.returncode}")
                took = time.monotonic() - started
                sent = hosts.sent("a") | removed
        if not try_run(["cmp", self.source, folder / "b" / "export" / "file"]):
            sys.exit(f"{name}: the file that arrived is another one")
        shutil.rmtree(folder)
        return {"seconds": took, "sent_mb": sum(sent.values()) / 1e6}

    @staticmethod
    def remove(hosts, link):
        """Removes it at its time, and gives what it had sent."""
        time.sleep(REMOVED_S)
        sent = {link: hosts.sent("a")[link]}
        hosts.remove(link, "a")
        return sent


class Benchmark:
    """What is sent, and how."""

    def __init__(self, options, hosts, folder):
        self.options, self.hosts, self.folder = options, hosts, folder
        self.source, self.limit_s = folder / "source", 60 + 8 * options.size / 10e6
        make_file(self.source, options.size)

    def place(self, name):
        place = self.folder / name
        place.mkdir()
        return place

    def sfio(self):
        """put, then get of the same file."""
        target, back = ["b,file"], self.place("get")
        with Member(self.options.programs / "sfio", self.hosts, self.folder) as member:
            put = member.start("put", self.source, *target)
            yield "sfio put", measure(put, self.folder / "b" / "export", self.options.size, self.limit_s)
            get = member.start("get", *target, back / "file")
            row = measure(get, back, self.options.size, self.limit_s)
            if "failed" not in row and not try_run(["cmp", self.source, back / "file"]):
                row = {"failed": "the file came back different"}
            yield "sfio get", row

    def tcp(self, name, protocol):
        place = self.place(name.replace(" ", "-"))
        there = address(BEST, "b")
        role = lambda part, path: [sys.executable, Path(__file__).resolve(), part, protocol, there, path]
        receiver = self.hosts.start("b", role("--receive", place / "file"))
        time.sleep(0.5)
        row = measure(self.hosts.start("a", role("--send", self.source)), place, self.options.size, self.limit_s)
        receiver.kill()
        receiver.wait()
        yield name, row

    def rsync(self):
        place = self.place("rsync")
        config = self.folder / "rsyncd.conf"
        config.write_text(f"use chroot = no\n[to]\npath = {place}\nread only = no\nuid = 0\ngid = 0\n")
        there = address(BEST, "b")
        daemon = self.hosts.start("b", ["rsync", "--daemon", "--no-detach", "--config", config, "--address", there,
                                        "--port", RSYNC_PORT])
        time.sleep(0.5)
        command = ["rsync", "--whole-file", self.source, f"rsync://{there}:{RSYNC_PORT}/to/file"]
        yield "rsync over TCP BBR", measure(self.hosts.start("a", command), place, self.options.size, self.limit_s)
        daemon.terminate()
        daemon.wait()

    def rows(self):
        only = self.options.only
        if {"put", "get"} & only:
            yield from self.sfio()
        bbr = self.hosts.use_bbr()
        congestion = "BBR" if bbr else "CUBIC (this kernel has no BBR)"
        if "mptcp" in only:
            if self.hosts.use_mptcp():
                name, row = next(self.tcp(f"MPTCP {congestion}", MPTCP))
                yield f"{name}, {1 + self.hosts.subflows()} subflows", row
            else:
                yield "MPTCP", {"skipped": "this kernel has no net.mptcp.enabled"}
        if "tcp" in only:
            yield from self.tcp(f"TCP {congestion}", socket.IPPROTO_TCP)
        if "rsync" in only:
            if shutil.which("rsync"):
                yield from self.rsync()
            else:
                yield "rsync", {"skipped": "there is no program rsync"}


def size(text):
    for unit, factor in [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("", 1)]:
        if text.endswith(unit):
            return int(float(text.removesuffix(unit)) * factor)
    raise argparse.ArgumentTypeError(f"\"{text}\" is no size; expected bytes, or with a unit, as 1GiB")


def told(name, row):
    if "seconds" not in row:
        return f"{name:<34} {next(f'{kind}: {why}' for kind, why in row.items())}"
    steady = f"{row['steady_share_of_limit']:8.3f}" if "steady_mbps" in row else "       –"
    return f"{name:<34} {row['seconds']:8.1f} {row['mbps']:8.1f} {row['share_of_limit']:8.3f} {steady}"


def tell_failover(row, as_json):
    if as_json:
        print(json.dumps(row, indent=2))
        return
    for at in range(0, ENDS_S, 10):
        print(f"{at:2} s  " + " ".join(f"{rate:6.1f}" for rate in row["stored_mbps"][at:at + 10]))
    for name, value in row.items():
        if name == "stored_mbps":
            continue
        values = value if isinstance(value, list) else [value]
        print(f"{name:<28}" + " ".join("never" if value is None else f"{value:.1f}" for value in values))


def main():
    if sys.argv[1:2] == ["--receive"]:
        return tcp_receiver(sys.argv[2:])
    if sys.argv[1:2] == ["--send"]:
        return tcp_sender(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, default=Path("target/release"), help="the folder with sfio and netsim")
    parser.add_argument("--size", type=size, default=1 << 30, help="of the file, as 1GiB")
    parser.add_argument("--only", default="put,get,mptcp,tcp,rsync", help="some of put,get,mptcp,tcp,rsync")
    parser.add_argument("--failover", action="store_true", help="the failover run instead")
    parser.add_argument("--removal", action="store_true", help="puts with an interface removed instead")
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"), help="where files are, a disk in memory")
    parser.add_argument("--json", action="store_true", help="a JSON object instead of a table")
    options = parser.parse_args()
    options.programs, options.only = options.programs.resolve(), set(options.only.split(","))
    if os.geteuid() != 0 or not shutil.which("ip"):
        sys.exit("uplinks.py makes network namespaces: it needs root, and the program ip (iproute2)")
    for program in ["sfio", "netsim"]:
        if not (options.programs / program).exists():
            sys.exit(f"there is no {program} in {options.programs}; cargo build --release -p sfio-remote -p netsim")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        if options.failover:
            row = Failover(options, Path(folder)).run()
            tell_failover(row, options.json)
        elif options.removal:
            for name, row in Removal(options, Path(folder)).rows():
                figures = "  ".join(f"{key} {value:.2f}" for key, value in row.items())
                print(json.dumps({"name": name} | row) if options.json else f"{name:<14} {figures}", flush=True)
        else:
            compare(options, Path(folder))


def compare(options, folder):
    with Hosts(options.programs / "netsim", THREE_LINKS) as hosts:
        rows = {}
        if not options.json:
            print(f"links by {hosts.emulation}; limit after headers {LIMIT_BPS / 1e6:.1f} Mbit/s", flush=True)
            print(f"{'':<34} {'s':>8} {'Mbit/s':>8} {'of limit':>8} {'from 3rd s':>8}", flush=True)
        for name, row in Benchmark(options, hosts, folder).rows():
            rows[name] = row
            if not options.json:
                print(told(name, row), flush=True)
        if options.json:
            print(json.dumps({"links": hosts.emulation, "limit_mbps": LIMIT_BPS / 1e6, "bytes": options.size,
                              "rows": rows}, indent=2))


if __name__ == "__main__":
    main()

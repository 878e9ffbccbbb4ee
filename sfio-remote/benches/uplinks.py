#!/usr/bin/env python3
"""Two hosts with three links between them: sfio put and get beside MPTCP, TCP and rsync.

The hosts are network namespaces of this machine, so it needs root, and what it makes goes with it. Each link carries
100 Mbit/s of IP packets, takes 25, 40 or 15 ms each way, loses 2 % of the packets each way, and queues 50 ms; there is no
relay. Where the kernel has netem (`modprobe sch_netem`), the links are pairs of virtual Ethernet devices with netem;
elsewhere `netsim cable` carries the packets between TUN devices, by the same model.

    sfio-remote/benches/uplinks.py --programs target/release --size 1GiB
    sfio-remote/benches/uplinks.py --programs target/release --size 100MiB --only put,mptcp --json

Shares are of the limit after headers, rate x (1 - loss) x 1408/1496 over the three links: that of each second from the
third one on, and that of the whole command. TCP, and rsync over it, has one of the links, the best one.
"""

import argparse
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

DELAYS_MS = [25, 40, 15]
BEST = 2
RATE_MBIT = 100
LOSS = 0.02
QUEUE_MS = 50
LIMIT_BPS = len(DELAYS_MS) * RATE_MBIT * 1e6 * (1 - LOSS) * 1408 / 1496

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
    """The two namespaces, with the links between them."""

    def __init__(self, netsim):
        self.prefix = f"uplinks-{os.getpid()}"
        self.cables = []
        self.emulation = None
        self.netsim = netsim

    def name(self, host):
        return f"{self.prefix}-{host}"

    def command(self, host, command):
        return ["ip", "netns", "exec", self.name(host), *map(str, command)]

    def __enter__(self):
        for host in HOSTS:
            run(["ip", "netns", "add", self.name(host)])
            run(["ip", "-n", self.name(host), "link", "set", "lo", "up"])
        self.emulation = "netem" if self.has_netem() else "netsim cable"
        for link, delay_ms in enumerate(DELAYS_MS):
            (self.lay_veth if self.emulation == "netem" else self.lay_cable)(link, delay_ms)
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

    def lay_veth(self, link, delay_ms):
        ends = [self.device(link, host) for host in HOSTS]
        run(["ip", "-n", self.name("a"), "link", "add", ends[0], "type", "veth", "peer", "name", ends[1],
             "netns", self.name("b")])
        # netem queues what is on the way, too.
        packets = int(RATE_MBIT * 1e6 * (delay_ms + QUEUE_MS) / 1e3 / 8 / 1500)
        for host, end in zip(HOSTS, ends):
            run(self.command(host, ["ethtool", "-K", end, "gso", "off", "tso", "off"]) if shutil.which("ethtool") else
                ["ip", "-n", self.name(host), "link", "set", end, "gso_max_segs", "1"])
            run(self.command(host, ["tc", "qdisc", "add", "dev", end, "root", "netem", "limit", packets, "delay",
                                    f"{delay_ms}ms", "loss", f"{LOSS:%}", "rate", f"{RATE_MBIT}mbit"]))

    def lay_cable(self, link, delay_ms):
        ends = []
        for host in HOSTS:
            # The program attaches to a device here, which then moves to its host and stays attached.
            end = os.open("/dev/net/tun", os.O_RDWR)
            name = f"{self.device(link, host)}-{os.getpid()}"[:15]
            fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
            run(["ip", "link", "set", name, "netns", self.name(host), "name", self.device(link, host)])
            run(["ip", "-n", self.name(host), "link", "set", self.device(link, host), "txqueuelen", "1000"])
            ends.append(end)
        command = [self.netsim, "cable", "--rate", f"{RATE_MBIT}Mbit/s", "--delay", f"{delay_ms}ms",
                   "--loss", str(LOSS), "--queue", f"{QUEUE_MS}ms", "--seed", str(link + 1)]
        self.cables.append(subprocess.Popen(command, stdin=ends[0], stdout=ends[1]))
        for end in ends:
            os.close(end)

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
        for link in range(len(DELAYS_MS)):
            if link != BEST:
                run(["ip", "-n", self.name("b"), "mptcp", "endpoint", "add", address(link, "b"), "signal"])
        return True


def overlay(folder, sfio):
    """Writes what two members need that have three links between them; gives their config files."""
    configs, text = {}, "serial = 1\n"
    for host in HOSTS:
        home = folder / host
        home.mkdir()
        keys = [line for line in run([sfio, "keygen", home / "key"]).splitlines() if "=" in line]
        text += f"[[member]]\nname = \"{host}\"\n" + "\n".join(keys) + "\n"
        text += f"control = \"{address(BEST, host)}:{CONTROL_PORT}\"\ndata = \"{address(BEST, host)}:{DATA_PORT}\"\n"
        configs[host] = home / "config.toml"
        export = "" if host == "a" else "export = \"export\"\n[access]\na = \"read-write\"\n"
        configs[host].write_text(f"overlay = \"../overlay.toml\"\nmember = \"{host}\"\nkey = \"key\"\n{export}")
    (folder / "b" / "export").mkdir()
    for link, delay_ms in enumerate(DELAYS_MS):
        text += f"[[link]]\na = \"a\"\nb = \"b\"\nname = \"link{link}\"\ncapacity_mbit = {RATE_MBIT}\n"
        text += f"delay_ms = {delay_ms}\nloss = {LOSS}\n"
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


class Benchmark:
    """What is sent, and how."""

    def __init__(self, options, hosts, folder):
        self.options, self.hosts, self.folder = options, hosts, folder
        self.source, self.limit_s = folder / "source", 60 + 8 * options.size / 10e6
        with open(self.source, "wb") as file:
            for start in range(0, options.size, 1 << 20):
                file.write(os.urandom(min(1 << 20, options.size - start)))

    def place(self, name):
        place = self.folder / name
        place.mkdir()
        return place

    def sfio(self):
        """put, then get of the same file."""
        configs, sfio = overlay(self.folder, self.options.programs / "sfio"), self.options.programs / "sfio"
        log = open(self.folder / "member.log", "w")
        member = self.hosts.start("b", [sfio, "member", "--config", configs["b"]], stdout=subprocess.PIPE, stderr=log)
        member.stdout.readline()
        try:
            target, back = ["b,file"], self.place("get")
            put = self.hosts.start("a", [sfio, "put", "--config", configs["a"], self.source, *target])
            yield "sfio put", measure(put, self.folder / "b" / "export", self.options.size, self.limit_s)
            get = self.hosts.start("a", [sfio, "get", "--config", configs["a"], *target, back / "file"])
            row = measure(get, back, self.options.size, self.limit_s)
            if "failed" not in row and not try_run(["cmp", self.source, back / "file"]):
                row = {"failed": "the file came back different"}
            yield "sfio get", row
        finally:
            member.terminate()
            member.wait()

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


def main():
    if sys.argv[1:2] == ["--receive"]:
        return tcp_receiver(sys.argv[2:])
    if sys.argv[1:2] == ["--send"]:
        return tcp_sender(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, default=Path("target/release"), help="the folder with sfio and netsim")
    parser.add_argument("--size", type=size, default=1 << 30, help="of the file, as 1GiB")
    parser.add_argument("--only", default="put,get,mptcp,tcp,rsync", help="some of put,get,mptcp,tcp,rsync")
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"), help="where files are, a disk in memory")
    parser.add_argument("--json", action="store_true", help="a JSON object instead of a table")
    options = parser.parse_args()
    options.programs, options.only = options.programs.resolve(), set(options.only.split(","))
    if os.geteuid() != 0 or not shutil.which("ip"):
        sys.exit("uplinks.py makes network namespaces: it needs root, and the program ip (iproute2)")
    for program in ["sfio", "netsim"]:
        if not (options.programs / program).exists():
            sys.exit(f"there is no {program} in {options.programs}; cargo build --release -p sfio-remote -p netsim")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder, Hosts(options.programs / "netsim") as hosts:
        rows = {}
        if not options.json:
            print(f"links by {hosts.emulation}; limit after headers {LIMIT_BPS / 1e6:.1f} Mbit/s", flush=True)
            print(f"{'':<34} {'s':>8} {'Mbit/s':>8} {'of limit':>8} {'from 3rd s':>8}", flush=True)
        for name, row in Benchmark(options, hosts, Path(folder)).rows():
            rows[name] = row
            if not options.json:
                print(told(name, row), flush=True)
        if options.json:
            print(json.dumps({"links": hosts.emulation, "limit_mbps": LIMIT_BPS / 1e6, "bytes": options.size,
                              "rows": rows}, indent=2))


if __name__ == "__main__":
    main()

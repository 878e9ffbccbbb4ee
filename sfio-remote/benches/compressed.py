#!/usr/bin/env python3
"""The rule of compression for real: what it loses, and `sync` beside what else compresses on the way.

    sfio-remote/benches/compressed.py regret --network 100 --turns 3       # Mbit/s, between two namespaces (as root)
    sfio-remote/benches/compressed.py regret --network loopback --turns 3
    sfio-remote/benches/compressed.py sync --size 1GiB                     # as root; needs rsync and zstd

`regret` sends six kinds of data by `sfio put` once with each codec and once with the rule, turn after turn, and prints the
medians: the rule's time over the best, and over that of no compression; and the spread of the latter. A payload takes five
seconds at the rate of the network as it is; on loopback it has 512 MiB.

`sync` sends a file of text over a link of 100 Mbit/s and 5 ms: by `sfio sync`, by `zstd --adapt` through TCP, and by
`rsync -z`, each until the other host has the file.
"""

import argparse
import os
import random
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import uplinks

CODECS = ["never", "lz4", "zstd:-5", "zstd:1", "zstd:3", "zstd:9"]
REPOSITORY = Path(__file__).resolve().parents[2]
# What text is made of, wherever there is some.
TEXTS = ["~/.cargo/registry/src", "/usr/share/doc", "/usr/include", "/usr/lib/python3", "/usr/share/perl"]
SUFFIXES = {".rs", ".md", ".txt", ".h", ".c", ".py", ".html", ".toml", ".pm"}
DATA_PORT = 7010
# The link between the two hosts: its delay, and its rate where none is asked for.
DELAY_MS, SYNC_RATE_MBIT = 5, 100


def pieces(model, longest, size):
    """Pieces of a text from anywhere in it: as much like it as it is like itself."""
    dice, parts, length = random.Random(7), [], 0
    while length < size:
        start = dice.randrange(len(model) - longest)
        part = model[start:start + dice.randrange(5, longest)]
        parts.append(part)
        length += len(part)
    return b"".join(parts)[:size]


def numbers(size, form, value):
    import array

    return array.array(form, (value(index) for index in range(size // array.array(form).itemsize))).tobytes()


def kinds(size, only):
    """Six kinds of data, as benches/compression.rs has them. All but the random one repeat after 16 MiB, of which no frame
    of 256 KiB takes notice."""
    import math

    dice, part = random.Random(7), min(size, 16 << 20)
    book = (REPOSITORY / "docs/design.md").read_bytes()
    code = (REPOSITORY / "sfio-remote/src/io/replication/planting.rs").read_bytes()

    def smooth(index):
        field = math.sin(index * 1e-3) * 100 + dice.randrange(1_000_000) * 1e-6
        bits = struct.unpack("<Q", struct.pack("<d", field))[0] & ~0xFFF
        return struct.unpack("<d", struct.pack("<Q", bits))[0]

    made = {
        "random": lambda: os.urandom(size),
        "ints": lambda: numbers(part, "I", lambda _: dice.randrange(4_000)),
        "floats": lambda: numbers(part, "d", smooth),
        "text": lambda: pieces(book, 40, part),
        "source": lambda: pieces(code, 120, part),
        "zeros": lambda: bytes(part),
    }
    for name, make in made.items():
        if only and name not in only:
            continue
        data = make()
        yield name, (data * (size // len(data) + 1))[:size]


def text(path, size):
    """A file of text that is nowhere the same twice: what this machine has, then the same in other letters."""
    files = [file for root in TEXTS for file in sorted(Path(root).expanduser().rglob("*")) if file.suffix in SUFFIXES]
    letters = bytes(range(ord("a"), ord("z") + 1))
    with open(path, "wb") as target:
        for turn in range(26):
            table = bytes.maketrans(letters, letters[turn:] + letters[:turn])
            for file in files:
                if target.tell() >= size:
                    target.truncate(size)
                    return
                if file.is_file() and not file.is_symlink():
                    target.write(file.read_bytes().translate(table))
    sys.exit("this machine has no text to send")


class Members:
    """An I/O node `b`, the config file of a client `a`, and the link between them."""

    def __init__(self, folder, programs, hosts):
        self.folder, self.sfio, self.hosts = folder, programs / "sfio", hosts
        where = {host: uplinks.address(0, host) if hosts else "127.0.0.1" for host in uplinks.HOSTS}
        text, self.config = "serial = 1\n", {}
        for number, host in enumerate(uplinks.HOSTS):
            home = folder / host
            home.mkdir()
            keys = [line for line in uplinks.run([self.sfio, "keygen", home / "key"]).splitlines() if "=" in line]
            ports = [DATA_PORT + 2 * number, DATA_PORT + 2 * number + 1]
            text += f"[[member]]\nname = \"{host}\"\n" + "\n".join(keys) + "\n"
            text += f"control = \"{where[host]}:{ports[0]}\"\ndata = \"{where[host]}:{ports[1]}\"\n"
            self.config[host] = home / "config.toml"
            export = "" if host == "a" else "export = \"export\"\n[access]\na = \"read-write\"\n"
            self.config[host].write_text(f"overlay = \"../overlay.toml\"\nmember = \"{host}\"\nkey = \"key\"\n{export}")
        text += "[[link]]\na = \"a\"\nb = \"b\"\n[[site]]\nname = \"there\"\nio_nodes = [\"b\"]\nstripe_unit = \"64KiB\"\n"
        (folder / "overlay.toml").write_text(text)
        self.export = folder / "b" / "export"
        self.export.mkdir()

    def command(self, host, command):
        return self.hosts.command(host, command) if self.hosts else [str(part) for part in command]

    def __enter__(self):
        log = open(self.folder / "member.log", "w")
        command = self.command("b", [self.sfio, "member", "--config", self.config["b"]])
        self.member = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        self.member.stdout.readline()
        return self

    def __exit__(self, *_):
        self.member.terminate()
        self.member.wait()

    def take(self, *arguments):
        """How long a command of the client takes."""
        command = [self.sfio, arguments[0], "--config", self.config["a"], *arguments[1:]]
        began = time.monotonic()
        uplinks.run(self.command("a", command), env=os.environ | {"XDG_CACHE_HOME": str(self.folder / "cache")})
        return time.monotonic() - began

    def forget(self):
        """Removes what the I/O node has."""
        for part in self.export.iterdir():
            shutil.rmtree(part) if part.is_dir() else part.unlink()


def regret(options, hosts, folder):
    size = 512 << 20 if options.network == "loopback" else int(float(options.network) * 1e6 / 8 * 5)
    print(f"{size / 1e6:.0f} MB, network {options.network}, medians of {options.turns} turns\n")
    codecs = options.codecs
    print("| data | " + " | ".join(codecs) + " | auto | auto / best | auto / never | spread of never |")
    print("|---|" + "---|" * (len(codecs) + 4), flush=True)
    with Members(folder, options.programs, hosts) as members:
        source = folder / "source"
        for name, data in kinds(size, options.only):
            source.write_bytes(data)
            times = {codec: [] for codec in [*codecs, "auto"]}
            for _ in range(options.turns):
                for codec, taken in times.items():
                    # A codec that is many times as slow as none cannot be the best one.
                    if not taken or taken[0] < 3 * times["never"][0]:
                        taken.append(members.take("put", "--compress", codec, source, "b,file"))
                        members.forget()
            medians = {codec: statistics.median(taken) for codec, taken in times.items()}
            best = min(medians[codec] for codec in codecs)
            spread = max(times["never"]) / min(times["never"])
            cells = " | ".join(f"{medians[codec]:.2f}" for codec in times)
            of_best, of_never = medians["auto"] / best, medians["auto"] / medians["never"]
            print(f"| {name} | {cells} | {of_best:.3f} | {of_never:.3f} | {spread:.2f} |", flush=True)


def sync(options, hosts, folder):
    source = folder / "text"
    source.mkdir()
    text(source / "file", options.size)
    print(f"{options.size / 1e6:.0f} MB of text, 100 Mbit/s, 5 ms, {options.turns} turns; s of each", flush=True)
    with Members(folder, options.programs, hosts) as members:
        for _ in range(options.turns):
            shutil.rmtree(members.folder / "cache", ignore_errors=True)
            print(f"sfio sync          {members.take('sync', source, 'there:text'):8.1f}", flush=True)
            members.forget()
            print(f"zstd --adapt | TCP {by_zstd(hosts, source / 'file', folder / 'by-zstd'):8.1f}", flush=True)
            print(f"rsync -z           {by_rsync(hosts, source / 'file', folder / 'by-rsync'):8.1f}", flush=True)


def by_zstd(hosts, source, target):
    role = [sys.executable, Path(__file__).resolve()]
    there = uplinks.address(0, "b")
    with open(target, "wb") as file:
        receiver = hosts.start("b", [*role, "--receive", there], stdout=subprocess.PIPE)
        unpacker = subprocess.Popen(["zstd", "-dcq"], stdin=receiver.stdout, stdout=file)
        time.sleep(0.5)
        began = time.monotonic()
        packer = subprocess.Popen(["zstd", "--adapt", "-cq", source], stdout=subprocess.PIPE)
        sender = hosts.start("a", [*role, "--send", there], stdin=packer.stdout)
        for process in [packer, sender, receiver, unpacker]:
            if process.wait() != 0:
                sys.exit("zstd through TCP failed")
        took = time.monotonic() - began
    uplinks.run(["cmp", source, target])
    target.unlink()
    return took


def by_rsync(hosts, source, target):
    config = target.with_suffix(".conf")
    target.mkdir()
    config.write_text(f"use chroot = no\n[to]\npath = {target}\nread only = no\nuid = 0\ngid = 0\n")
    there = uplinks.address(0, "b")
    command = ["rsync", "--daemon", "--no-detach", "--config", config, "--address", there, "--port", uplinks.RSYNC_PORT]
    daemon = hosts.start("b", command)
    time.sleep(0.5)
    began = time.monotonic()
    uplinks.run(hosts.command("a", ["rsync", "-z", source, f"rsync://{there}:{uplinks.RSYNC_PORT}/to/file"]))
    took = time.monotonic() - began
    daemon.terminate()
    daemon.wait()
    uplinks.run(["cmp", source, target / "file"])
    shutil.rmtree(target)
    return took


def receive(there):
    with socket.create_server((there, uplinks.TCP_PORT)) as listener:
        connection, _ = listener.accept()
        while piece := connection.recv(1 << 20):
            sys.stdout.buffer.write(piece)


def send(there):
    with socket.create_connection((there, uplinks.TCP_PORT)) as connection:
        while piece := sys.stdin.buffer.read1(1 << 16):
            connection.sendall(piece)


def main():
    if sys.argv[1:2] == ["--receive"]:
        return receive(sys.argv[2])
    if sys.argv[1:2] == ["--send"]:
        return send(sys.argv[2])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["regret", "sync"])
    parser.add_argument("--programs", type=Path, default=Path("target/release"), help="the folder with sfio and netsim")
    parser.add_argument("--network", default="100", help="a rate in Mbit/s, or loopback")
    parser.add_argument("--size", type=uplinks.size, default=1 << 30, help="of the text, as 1GiB")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", type=lambda names: names.split(","), help="some of the kinds of data")
    parser.add_argument("--codecs", type=lambda names: names.split(","), default=CODECS, help="some of them, never first")
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"), help="where files are, a disk in memory")
    options = parser.parse_args()
    options.programs = options.programs.resolve()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        if options.what == "regret" and options.network == "loopback":
            return regret(options, None, Path(folder))
        rate_mbit = float(options.network) if options.what == "regret" else SYNC_RATE_MBIT
        with uplinks.Hosts(options.programs / "netsim", [uplinks.Link(rate_mbit, DELAY_MS, 0.0)]) as hosts:
            (regret if options.what == "regret" else sync)(options, hosts, Path(folder))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""`sfio sync` beside rsync over emulated networks of the same rates, delays and losses.

    cargo build --release -p sfio-remote && sudo python3 sfio-remote/benches/against_rsync.py [--json]

sfio has the three paths of an overlay from `sfio overlay new`; rsync, by its daemon and TCP with CUBIC and with BBR (where
the kernel has it), the best of them alone, since it cannot use more. That path is a pair of TUN devices in two network namespaces, joined by this script:
queue, then rate, then delay, then loss, as in netsim. Needs root, iproute2, rsync and /dev/net/tun; where one is missing it
says so and ends with code 0.
"""

import argparse, fcntl, heapq, json, os, random, select, shutil, signal, struct, subprocess, sys, tempfile, threading, time

RATE_MBIT, DELAY_MS, LOSS_PER_LINK = 100, 15, 0.01  # of each of the two links of the first path
QUEUE_MS = 50
CONTROLS = [
    control for control in ("cubic", "bbr")
    if control in open("/proc/sys/net/ipv4/tcp_available_congestion_control").read().split()
]
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
SFIO = os.path.join(os.environ.get("CARGO_TARGET_DIR", "target"), "release", "sfio")


def missing():
    if os.geteuid() != 0:
        return "not root"
    for program in ("ip", "rsync"):
        if not shutil.which(program):
            return f"there is no {program}"
    if not os.path.exists("/dev/net/tun"):
        return "there is no /dev/net/tun"
    if not os.path.exists(SFIO):
        return f"there is no {SFIO}"
    return None


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


class Path(threading.Thread):
    """Two TUN devices and the link between them."""

    def __init__(self, names):
        super().__init__(daemon=True)
        self.devices = []
        for name in names:
            device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
            self.devices.append(device)
        self.random = random.Random(1)
        self.free_at = [0.0, 0.0]
        self.flying = []
        self.count = 0

    def run(self):
        try:
            self.carry()
        except OSError:
            pass  # the devices went with their namespaces

    def carry(self):
        while True:
            now = time.monotonic()
            while self.flying and self.flying[0][0] <= now:
                _, _, to, packet = heapq.heappop(self.flying)
                os.write(self.devices[to], packet)
            wait = self.flying[0][0] - now if self.flying else 1.0
            readable, _, _ = select.select(self.devices, [], [], max(wait, 0))
            for device in readable:
                way = self.devices.index(device)
                for _ in range(64):
                    try:
                        packet = os.read(device, 2048)
                    except BlockingIOError:
                        break
                    self.enqueue(way, packet)

    def enqueue(self, way, packet):
        delay, loss = 2 * DELAY_MS / 1e3, 1 - (1 - LOSS_PER_LINK) ** 2
        now = time.monotonic()
        begin = max(now, self.free_at[way])
        if begin - now > QUEUE_MS / 1e3:
            return
        self.free_at[way] = begin + len(packet) * 8 / (RATE_MBIT * 1e6)
        if self.random.random() >= loss:
            self.count += 1
            heapq.heappush(self.flying, (self.free_at[way] + delay, self.count, 1 - way, packet))


class Namespaces:
    # Whatever a run that was killed left behind, and whoever else measures, has other names.
    NAMES = (f"sfio-a{os.getpid()}", f"sfio-b{os.getpid()}")
    ALLOWED = "/proc/sys/net/ipv4/tcp_allowed_congestion_control"

    def __enter__(self):
        # In a namespace only these may be chosen.
        self.allowed = open(self.ALLOWED).read()
        open(self.ALLOWED, "w").write(" ".join({*self.allowed.split(), *CONTROLS}))
        self.path = Path(self.NAMES)
        for name, address in zip(self.NAMES, ("10.71.0.1", "10.71.0.2")):
            run("ip", "netns", "add", name)
            run("ip", "link", "set", name, "netns", name)
            run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", name)
            run("ip", "-n", name, "link", "set", name, "up")
        self.path.start()
        return self

    def __exit__(self, *_):
        open(self.ALLOWED, "w").write(self.allowed)
        for name in self.NAMES:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def make_source(root, megabytes, small_files):
    source = os.path.join(root, "source")
    os.makedirs(source)
    noise = random.Random(2)
    with open(os.path.join(source, "large"), "wb") as large:
        for _ in range(megabytes):
            large.write(noise.randbytes(1 << 20))
    for number in range(small_files):
        folder = os.path.join(source, str(number // 100))
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, str(number)), "wb") as small:
            small.write(noise.randbytes(8192))
    return source


def change_some(source, small_files):
    noise = random.Random(3)
    for number in range(0, small_files, 100):
        with open(os.path.join(source, str(number // 100), str(number)), "wb") as small:
            small.write(noise.randbytes(8192))


def insert_one_byte(source):
    path = os.path.join(source, "large")
    with open(path, "rb") as large:
        data = large.read()
    with open(path, "wb") as large:
        large.write(data[: len(data) // 3] + b"!" + data[len(data) // 3 :])


def sync_with_sfio(source, overlay):
    began = time.monotonic()
    output = run(SFIO, "sync", "--json", "--compress", "never", "--overlay", overlay, source, "local:bench")
    summary = json.loads(output.strip().splitlines()[-1])
    return time.monotonic() - began, summary["network_bytes"]


def sync_with_rsync(source, control, limit):
    inside = ["ip", "netns", "exec", Namespaces.NAMES[0]]
    run(*inside, "sysctl", "-w", f"net.ipv4.tcp_congestion_control={control}")
    began = time.monotonic()
    command = [*inside, "rsync", "-a", "--stats", "--no-whole-file", source + "/", f"rsync://10.71.0.2/{control}/"]
    try:
        output = run(*command, timeout=limit)
    except subprocess.TimeoutExpired:
        return None, None
    sent = [line for line in output.splitlines() if line.startswith(("Total bytes sent", "Total bytes received"))]
    return time.monotonic() - began, sum(int(line.split(":")[1].replace(",", "").replace(".", "")) for line in sent)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=200, help="size of the large file")
    parser.add_argument("--small-files", type=int, default=2000, help="files of 8 KiB beside it")
    parser.add_argument("--limit", type=int, default=900, help="seconds after which a run of rsync is given up")
    parser.add_argument("--control", choices=CONTROLS, help="only this congestion control for rsync; else all there are")
    parser.add_argument("--json", action="store_true", help="one object per row")
    options = parser.parse_args()
    CONTROLS[:] = [options.control] if options.control else CONTROLS
    if why := missing():
        print(f"skipped: {why}")
        return
    # A run that is ended from outside still removes its namespaces.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as root, Namespaces():
        os.environ["XDG_CACHE_HOME"] = os.path.join(root, "cache")
        overlay = os.path.join(root, "overlay")
        run(SFIO, "overlay", "new", overlay, "--relays", "3", "--io-nodes", "3", "--rate-mbit", str(RATE_MBIT),
            "--delay-ms", str(DELAY_MS), "--loss", str(LOSS_PER_LINK))
        up = subprocess.Popen([SFIO, "overlay", "up", overlay], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        while not up.stdout.readline().startswith("ready"):
            pass
        config = os.path.join(root, "rsyncd.conf")
        with open(config, "w") as file:
            file.write("use chroot = no\nuid = 0\ngid = 0\n")
            for control in CONTROLS:
                target = os.path.join(root, control)
                os.makedirs(target)
                file.write(f"[{control}]\npath = {target}\nread only = false\n")
        daemon = subprocess.Popen(["ip", "netns", "exec", Namespaces.NAMES[1], "rsync", "--daemon", "--no-detach", "--config", config])
        try:
            time.sleep(0.5)
            measure(options, root, overlay)
        finally:
            daemon.terminate()
            up.terminate()


def measure(options, root, overlay):
    source = make_source(root, options.megabytes, options.small_files)
    total = (options.megabytes << 20) + options.small_files * 8192
    steps = [
        ("first", lambda: None),
        ("nothing changed", lambda: None),
        ("1 % of the small files changed", lambda: change_some(source, options.small_files)),
        ("one byte inserted into the large file", lambda: insert_one_byte(source)),
    ]
    if not options.json:
        print(f"{total / 1e6:.0f} MB; {RATE_MBIT} Mbit/s a path, {4 * DELAY_MS} ms round trip and "
              f"{100 * (1 - (1 - LOSS_PER_LINK) ** 2):.1f} % loss on the best one")
        columns = "".join(f" {control + ' s':>9} {'MB':>8} {'faster':>7}" for control in CONTROLS)
        print(f"{'':40} {'sfio s':>8} {'MB':>8}{columns}")
    for name, change in steps:
        change()
        ours, our_bytes = sync_with_sfio(source, overlay)
        row = {"step": name, "bytes": total, "sfio_s": ours, "sfio_bytes": our_bytes}
        line = f"{name:40} {ours:8.1f} {our_bytes / 1e6:8.2f}"
        for control in CONTROLS:
            theirs, their_bytes = sync_with_rsync(source, control, options.limit)
            row |= {f"rsync_{control}_s": theirs, f"rsync_{control}_bytes": their_bytes}
            if theirs is None:
                line += f" {'>' + str(options.limit):>9} {'':8} {'>%.1f' % (options.limit / ours):>7}"
            else:
                line += f" {theirs:9.1f} {their_bytes / 1e6:8.2f} {theirs / ours:7.1f}"
        print(json.dumps(row) if options.json else line, flush=True)


if __name__ == "__main__":
    main()

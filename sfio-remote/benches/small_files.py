#!/usr/bin/env python3
"""`sfio sync` of 100,000 files of 4 KiB over a long link, beside one file of the same size and `sfio put` of it.

    cargo build --release -p sfio-remote && python3 sfio-remote/benches/small_files.py [--relays 3] [--loss 0.02] [--json]

The links are those that `sfio overlay up` emulates: to each of the I/O nodes there is a path over each relay, all of the same
delay. What is compared with the link's rate is the whole command's time, from its start to its end, and the files' bytes. The
last column is the rate between a quarter and three quarters of the bytes, as the I/O nodes' subfiles grow: what remains when
connecting, opening, finding the rate, and the last reply are left out.
"""

import argparse, json, os, random, re, subprocess, tempfile, threading, time

SFIO = os.path.join(os.environ.get("CARGO_TARGET_DIR", "target"), "release", "sfio")
FILE_BYTES, FOLDER_FILES = 4096, 1000
LOOK_S = 0.1


def make_trees(root, files):
    """The tree of small files, and a tree with one large one."""
    noise = random.Random(2)
    small, large = os.path.join(root, "small"), os.path.join(root, "large")
    os.makedirs(large)
    with open(os.path.join(large, "file"), "wb") as whole:
        for number in range(files):
            folder = os.path.join(small, str(number // FOLDER_FILES))
            if number % FOLDER_FILES == 0:
                os.makedirs(folder)
            content = noise.randbytes(FILE_BYTES)
            whole.write(content)
            with open(os.path.join(folder, str(number)), "wb") as file:
                file.write(content)
    return small, large


def make_overlay(root, options):
    """An overlay of which all links have the same delay, a quarter of the round trip."""
    overlay = os.path.join(root, "overlay")
    loss_per_link = 1 - (1 - options.loss) ** 0.5
    delay = options.round_trip_ms / 4
    run("overlay", "new", overlay, "--relays", str(options.relays), "--io-nodes", str(options.io_nodes), "--rate-mbit",
        str(options.rate_mbit), "--delay-ms", str(delay), "--loss", f"{loss_per_link:.6f}")
    for name in ("overlay.toml", "links.toml"):
        path = os.path.join(overlay, name)
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(re.sub(r"delay_ms = .*", f"delay_ms = {delay}", text))
    return overlay


def run(*arguments):
    return subprocess.run([SFIO, *arguments], check=True, capture_output=True, text=True).stdout


class Arrivals(threading.Thread):
    """Watches how the subfiles of the I/O nodes grow."""

    def __init__(self, overlay):
        super().__init__(daemon=True)
        self.overlay, self.ended, self.looks = overlay, threading.Event(), []
        self.before = self.bytes()
        self.began = time.monotonic()
        self.start()

    def bytes(self):
        total = 0
        for folder, _, names in os.walk(self.overlay):
            if "/export" in folder:
                for name in names:
                    try:
                        total += os.stat(os.path.join(folder, name)).st_size
                    except FileNotFoundError:
                        pass
        return total

    def run(self):
        while not self.ended.wait(LOOK_S):
            self.looks.append((time.monotonic() - self.began, self.bytes() - self.before))

    def end(self):
        self.ended.set()
        self.join()

    def steady_rate(self, total):
        """Bytes per second between a quarter and three quarters."""
        at = lambda share: next((look for look in self.looks if look[1] >= share * total), self.looks[-1])
        (from_s, from_bytes), (to_s, to_bytes) = at(0.25), at(0.75)
        return (to_bytes - from_bytes) / max(to_s - from_s, LOOK_S)


def measure(name, overlay, total, options, *command):
    arrivals = Arrivals(overlay)
    run(*command)
    seconds = time.monotonic() - arrivals.began
    arrivals.end()
    link = options.rate_mbit * 1e6 / 8 * options.relays
    row = {"what": name, "bytes": total, "seconds": seconds, "share_of_link": total / seconds / link,
           "steady_share_of_link": arrivals.steady_rate(total) / link}
    if options.timeline:
        row["arrivals"] = arrivals.looks
    if options.json:
        print(json.dumps(row), flush=True)
    else:
        print(f"{name:24} {seconds:8.1f} {100 * row['share_of_link']:9.1f} % {100 * row['steady_share_of_link']:9.1f} %", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--relays", type=int, default=1, help="paths, of which each has the rate")
    parser.add_argument("--io-nodes", type=int, default=3)
    parser.add_argument("--rate-mbit", type=float, default=100)
    parser.add_argument("--round-trip-ms", type=float, default=100)
    parser.add_argument("--loss", type=float, default=0, help="of a path, in each direction")
    parser.add_argument("--only", choices=("small", "large", "put"), action="append", help="only this")
    parser.add_argument("--json", action="store_true", help="one object per row")
    parser.add_argument("--timeline", action="store_true", help="with --json: what had arrived when, (seconds, bytes)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        os.environ["XDG_CACHE_HOME"] = os.path.join(root, "cache")
        small, large = make_trees(root, options.files)
        overlay, total = make_overlay(root, options), options.files * FILE_BYTES
        up = subprocess.Popen([SFIO, "overlay", "up", overlay], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        while not up.stdout.readline().startswith("ready"):
            pass
        if not options.json:
            print(f"{total / 1e6:.0f} MB; {options.relays} x {options.rate_mbit:g} Mbit/s, {options.round_trip_ms:g} ms round trip, "
                  f"{100 * options.loss:g} % loss\n{'':24} {'s':>8} {'of link':>11} {'steady':>11}")
        name = ";".join(f"io{number + 1},put" for number in range(options.io_nodes))
        sync = ("sync", "--compress", "never", "--overlay", overlay)
        cases = {
            "small": (f"sync, {options.files} files", *sync, small, "local:small"),
            "large": ("sync, one file", *sync, large, "local:large"),
            "put": ("put, one file", "put", "--overlay", overlay, os.path.join(large, "file"), name),
        }
        try:
            for case in options.only or cases:
                measure(cases[case][0], overlay, total, options, *cases[case][1:])
        finally:
            up.terminate()
            up.wait()


if __name__ == "__main__":
    main()

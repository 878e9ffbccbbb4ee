#!/usr/bin/env python3
"""Two builds of `sfio` side by side, in turns: what `sync` costs in time and memory.

    python3 sfio-remote/benches/two_builds.py --old OLD/sfio --new target/release/sfio [--turns 5] [--only small] [--json]

Each turn sends the same tree with the one build and then with the other one, over an overlay that `sfio overlay up` of that build
emulates, to a data set of a new name; then once more, when nothing has changed. `small` is 100,000 files of 4 KiB, `mixed` one file of
200 MB and 2,000 of 8 KiB, `million` a million files of 300 bytes. Printed are the medians, their ratio, and the spread of the old build
against itself: its largest by its smallest. Memory is the most that the command's process held at a time.
"""

import argparse, json, os, random, statistics, subprocess, tempfile, time

FOLDER_FILES = 1000
CASES = {  # files, their bytes, bytes of one large file beside them, rate in Mbit/s of a link
    "small": (100_000, 4096, 0, 100),
    "mixed": (2_000, 8192, 200_000_000, 100),
    "million": (1_000_000, 300, 0, 1000),
}


def make_tree(root, files, file_bytes, large_bytes):
    noise = random.Random(2)
    for number in range(files):
        folder = os.path.join(root, str(number // FOLDER_FILES))
        if number % FOLDER_FILES == 0:
            os.makedirs(folder)
        with open(os.path.join(folder, str(number)), "wb") as file:
            file.write(noise.randbytes(file_bytes))
    with open(os.path.join(root, "large"), "wb") as file:
        for _ in range(0, large_bytes, 1_000_000):
            file.write(noise.randbytes(1_000_000))


class Build:
    """One build, with an overlay of its own: three relays and three I/O nodes."""

    def __init__(self, sfio, root, rate_mbit):
        self.sfio, self.overlay, self.cache = os.path.abspath(sfio), os.path.join(root, "overlay"), os.path.join(root, "cache")
        os.makedirs(root)
        subprocess.run([self.sfio, "overlay", "new", self.overlay, "--relays", "3", "--io-nodes", "3", "--rate-mbit", str(rate_mbit),
                        "--delay-ms", "15", "--loss", "0.005"], check=True, capture_output=True)
        if self.knows("--patience"):
            self.patience = ["--patience", "60"]
        else:
            self.patience = []

    def knows(self, flag):
        return flag in subprocess.run([self.sfio, "sync", "--help"], capture_output=True, text=True).stdout

    def turn(self, tree, name):
        """Seconds and KiB of sending all, and of finding nothing to do."""
        up = subprocess.Popen([self.sfio, "overlay", "up", self.overlay], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        while not up.stdout.readline().startswith("ready"):
            pass
        try:
            return self.sync(tree, name), self.sync(tree, name)
        finally:
            up.terminate()
            up.wait()

    def sync(self, tree, name):
        command = [self.sfio, "sync", "--compress", "never", *self.patience, "--overlay", self.overlay, tree, f"local:{name}"]
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env=dict(os.environ, XDG_CACHE_HOME=self.cache))
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
        return seconds, usage.ru_maxrss


def compare(case, options, root):
    files, file_bytes, large_bytes, rate_mbit = CASES[case]
    tree = os.path.join(root, case)
    make_tree(tree, files, file_bytes, large_bytes)
    builds = [Build(sfio, os.path.join(root, case + "-" + which), rate_mbit)
              for which, sfio in (("old", options.old), ("new", options.new))]
    turns = []
    for number in range(options.turns):
        # Who goes first changes with each turn, so that what one leaves in the page cache favours neither.
        order = [0, 1] if number % 2 == 0 else [1, 0]
        results = {which: builds[which].turn(tree, f"turn{number}") for which in order}
        turns.append(results)
    for column, what in enumerate(("first", "nothing to do")):
        times = [[turn[which][column][0] for turn in turns] for which in (0, 1)]
        memory = [[turn[which][column][1] / 1024 for turn in turns] for which in (0, 1)]
        old, new, old_mib, new_mib = map(statistics.median, times + memory)
        row = {"case": case, "what": what, "old_s": times[0], "new_s": times[1], "speed": old / new,
               "spread_of_old": max(times[0]) / min(times[0]), "old_mib": memory[0], "new_mib": memory[1]}
        if options.json:
            print(json.dumps(row), flush=True)
        else:
            print(f"{case:8} {what:14} old {old:7.2f} s {old_mib:6.1f} MiB   new {new:7.2f} s {new_mib:6.1f} MiB   "
                  f"{row['speed']:.2f} times as fast; old against itself {row['spread_of_old']:.2f} in time, "
                  f"{max(memory[0]) / min(memory[0]):.2f} in memory", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", required=True, help="the older program")
    parser.add_argument("--new", required=True, help="the newer program")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", choices=CASES, action="append", help="only this")
    parser.add_argument("--json", action="store_true", help="one object per row, with all times")
    options = parser.parse_args()
    for case in options.only or CASES:
        with tempfile.TemporaryDirectory() as root:
            compare(case, options, root)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""How `sfio put`, `get`, `sync` and `verify` live through outages of all links: real processes on loopback.

The links of a local overlay are emulated by the process of `sfio overlay up`. Stopping it (SIGSTOP) is an outage of all
links, of the control plane, too; SIGCONT ends it. For each length of an outage the script measures each command without it
and with it in turns, and prints how much later the latter ended than the outage explains: the medians, and with several
turns the least and the most of both, because a run without an outage differs from the next one by a second or two, too. A
sync sends another tree, or fetches into another place, each time.

    cargo build --release --bin sfio
    python3 sfio-remote/benches/outages.py --sfio target/release/sfio --outages 6,60
"""

import argparse
import filecmp
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time


class Overlay:
    """A local overlay that is up."""

    def __init__(self, sfio, folder, rate_mbit):
        self.sfio, self.folder = sfio, folder
        new = [sfio, "overlay", "new", folder, "--relays", "2", "--io-nodes", "2"]
        subprocess.run(new + ["--rate-mbit", str(rate_mbit), "--delay-ms", "5"], check=True, stdout=subprocess.DEVNULL)
        self.up = subprocess.Popen([sfio, "overlay", "up", folder], stdout=subprocess.PIPE, text=True)
        for line in self.up.stdout:
            if line.startswith("ready: "):
                return
        sys.exit("the overlay does not come up")

    def run(self, arguments, outage, begin_after):
        """Runs a command, with an outage of so many seconds; gives its seconds, its exit code and what it said."""
        began = time.monotonic()
        command = [self.sfio, *arguments, "--overlay", self.folder]
        environment = dict(os.environ, XDG_CACHE_HOME=os.path.join(self.folder, "cache"))
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
        if outage:
            time.sleep(begin_after)
            if process.poll() is not None:
                sys.exit("it ended before the outage began: give more --size")
            self.up.send_signal(signal.SIGSTOP)
            time.sleep(outage)
            self.up.send_signal(signal.SIGCONT)
        _, said = process.communicate()
        return time.monotonic() - began, process.returncode, said.strip()

    def end(self):
        self.up.send_signal(signal.SIGINT)
        self.up.wait()


def noise(folder, megabytes, name="file"):
    """A file of so many megabytes that has not been there before."""
    with open(os.path.join(folder, name), "wb") as file:
        for _ in range(megabytes):
            file.write(os.urandom(1_000_000))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sfio", default="target/release/sfio")
    parser.add_argument("--size", type=int, default=400, help="MB (default 400)")
    parser.add_argument("--rate-mbit", type=int, default=400, help="of each link (default 400)")
    parser.add_argument("--outages", default="6", help="seconds, with commas between (default 6)")
    parser.add_argument("--begin-after", type=float, default=1.5, help="seconds from the start of the command (default 1.5)")
    parser.add_argument("--turns", type=int, default=1, help="runs without and with each outage (default 1)")
    parser.add_argument("--only", action="append", choices=["put", "get", "send", "verify", "fetch"], help="only this command")
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        source, back = os.path.join(folder, "source"), os.path.join(folder, "back")
        noise(folder, options.size, "source")
        overlay = Overlay(os.path.abspath(options.sfio), os.path.join(folder, "overlay"), options.rate_mbit)
        try:
            name = "io1,x;io2,x"
            tree = os.path.join(folder, "tree")
            os.mkdir(tree)
            commands = {
                "put": (["put", "--replace", source, name], lambda: None, lambda: True),
                "get": (["get", name, back], lambda: None, lambda: filecmp.cmp(source, back, shallow=False)),
                "send": (["sync", "--compress", "never", tree, "local:set"], lambda: noise(tree, options.size), lambda: True),
                "verify": (["verify", "--generation", "1", "local:set"], lambda: None, lambda: True),
                "fetch": (["sync", "local:set", back + "-tree"], lambda: shutil.rmtree(back + "-tree", ignore_errors=True),
                          lambda: filecmp.cmp(os.path.join(tree, "file"), os.path.join(back + "-tree", "file"), shallow=False)),
            }
            chosen = options.only or commands
            print("command  outage  without it     with it  later than it explains  code")
            for outage in [float(text) for text in options.outages.split(",")]:
                for command in chosen:
                    arguments, prepare, is_right = commands[command]
                    plain, disturbed, worst, said = [], [], 0, ""
                    for _ in range(options.turns):
                        prepare()
                        seconds, code, words = overlay.run(arguments, 0, 0)
                        if code != 0:
                            sys.exit(f"{command} without an outage: code {code}: {words}")
                        plain.append(seconds)
                        prepare()
                        seconds, code, words = overlay.run(arguments, outage, options.begin_after)
                        disturbed.append(seconds)
                        worst, said = max(worst, code), words or said
                        failed |= code != 0 or not is_right()
                    without, seconds = statistics.median(plain), statistics.median(disturbed)
                    later = seconds - without - outage
                    failed |= later > 3
                    print(f"{command:7} {outage:5.0f} s {without:9.2f} s {seconds:9.2f} s {later:21.2f} s  {worst:4}  {said}", flush=True)
                    if options.turns > 1:
                        print(f"        without it {min(plain):.2f} to {max(plain):.2f} s, "
                              f"with it {min(disturbed):.2f} to {max(disturbed):.2f} s", flush=True)
        finally:
            overlay.end()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

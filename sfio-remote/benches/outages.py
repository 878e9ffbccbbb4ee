#!/usr/bin/env python3
"""How `sfio put` and `sfio get` live through outages of all links: real processes on loopback.

The links of a local overlay are emulated by the process of `sfio overlay up`. Stopping it (SIGSTOP) is an outage of all
links, of the control plane, too; SIGCONT ends it. For each length of an outage the script measures a put and a get without it
and with it, and prints how much later the latter ended than the outage explains.

    cargo build --release --bin sfio
    python3 sfio-remote/benches/outages.py --sfio target/release/sfio --outages 6,60
"""

import argparse
import filecmp
import os
import signal
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
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sfio", default="target/release/sfio")
    parser.add_argument("--size", type=int, default=400, help="MB (default 400)")
    parser.add_argument("--rate-mbit", type=int, default=400, help="of each link (default 400)")
    parser.add_argument("--outages", default="6", help="seconds, with commas between (default 6)")
    parser.add_argument("--begin-after", type=float, default=1.5, help="seconds from the start of the command (default 1.5)")
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        source, back = os.path.join(folder, "source"), os.path.join(folder, "back")
        with open(source, "wb") as file:
            for _ in range(options.size):
                file.write(os.urandom(1_000_000))
        overlay = Overlay(os.path.abspath(options.sfio), os.path.join(folder, "overlay"), options.rate_mbit)
        try:
            name = "io1,x;io2,x"
            commands = {"put": ["put", "--replace", source, name], "get": ["get", name, back]}
            print("command  outage  without it     with it  later than it explains  code")
            for outage in [float(text) for text in options.outages.split(",")]:
                for command, arguments in commands.items():
                    without, code, said = overlay.run(arguments, 0, 0)
                    if code != 0:
                        sys.exit(f"{command} without an outage: code {code}: {said}")
                    seconds, code, said = overlay.run(arguments, outage, options.begin_after)
                    later = seconds - without - outage
                    print(f"{command:7} {outage:5.0f} s {without:9.2f} s {seconds:9.2f} s {later:21.2f} s  {code:4}  {said}", flush=True)
                    equal = command == "put" or filecmp.cmp(source, back, shallow=False)
                    failed |= code != 0 or later > 3 or not equal
        finally:
            overlay.end()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

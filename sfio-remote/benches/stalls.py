#!/usr/bin/env python3
"""Two builds of `sfio` side by side on a machine whose processors are taken away now and then, as hosts of virtual machines do.

    python3 sfio-remote/benches/stalls.py --old OLD/sfio --new target/release/sfio [--turns 5] [--pause-ms 20] [--every-ms 120]

On each processor a process of real-time priority sleeps for a random time, `--every-ms` on average, and then computes for half
to one and a half times `--pause-ms`: nothing else runs there meanwhile. Each turn brings up an overlay with the one build and
then with the other one, over links of 100 Mbit/s, and runs `sync`, `put` and `get` of the same file. Printed are the medians
and the extremes. It needs the right to use SCHED_FIFO (root); without it, it says so and ends with 1.
"""

import argparse
import multiprocessing
import os
import random
import statistics
import sys
import tempfile
import time

import outages


def take_away(processor, pause_ms, every_ms):
    """Takes a processor away now and then, for ever."""
    os.sched_setaffinity(0, {processor})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(40))
    draw = random.Random(processor)
    while True:
        time.sleep(draw.expovariate(1000 / every_ms))
        end = time.monotonic() + pause_ms / 1000 * draw.uniform(0.5, 1.5)
        while time.monotonic() < end:
            pass


def turn(sfio, source, folder):
    """Seconds of `sync`, `put` and `get` with that build."""
    tree, back = os.path.join(folder, "tree"), os.path.join(folder, "back")
    os.mkdir(tree)
    os.link(source, os.path.join(tree, "file"))
    commands = {
        "sync": ["sync", "--compress", "never", tree, "local:set"],
        "put": ["put", source, "io1,x;io2,x"],
        "get": ["get", "io1,x;io2,x", back],
    }
    overlay = outages.Overlay(sfio, os.path.join(folder, "overlay"), 100)
    seconds = {}
    try:
        for name, arguments in commands.items():
            seconds[name], code, said = overlay.run(arguments, 0, 0)
            if code != 0:
                sys.exit(f"{sfio} {name}: code {code}: {said}")
    finally:
        overlay.end()
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", required=True, help="the older program")
    parser.add_argument("--new", required=True, help="the newer program")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--size", type=int, default=150, help="MB (default 150)")
    parser.add_argument("--pause-ms", type=float, default=20, help="how long a processor is away (default 20; 0: never)")
    parser.add_argument("--every-ms", type=float, default=120, help="how long it is there in between (default 120)")
    options = parser.parse_args()
    builds = {"old": os.path.abspath(options.old), "new": os.path.abspath(options.new)}
    if options.pause_ms > 0:
        try:
            before = os.sched_getscheduler(0), os.sched_getparam(0)
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
            os.sched_setscheduler(0, *before)
        except PermissionError:
            sys.exit("skipped: SCHED_FIFO is not allowed here; run it as root")
        for processor in os.sched_getaffinity(0):
            process = multiprocessing.Process(target=take_away, args=(processor, options.pause_ms, options.every_ms), daemon=True)
            process.start()
    turns = []
    with tempfile.TemporaryDirectory() as folder:
        outages.noise(folder, options.size, "source")
        os.sync()
        for number in range(options.turns):
            # Who goes first changes with each turn.
            order = list(builds) if number % 2 == 0 else list(builds)[::-1]
            turns.append({})
            for which in order:
                with tempfile.TemporaryDirectory(dir=folder) as here:
                    turns[-1][which] = turn(builds[which], os.path.join(folder, "source"), here)
    for name in turns[0]["old"]:
        seconds = {which: [one[which][name] for one in turns] for which in builds}
        old, new = statistics.median(seconds["old"]), statistics.median(seconds["new"])
        spread = "; ".join(f"{which} {min(all):.2f} to {max(all):.2f} s" for which, all in seconds.items())
        print(f"{name:5} old {old:6.2f} s   new {new:6.2f} s   {old / new:.2f} times as fast ({spread})", flush=True)


if __name__ == "__main__":
    main()

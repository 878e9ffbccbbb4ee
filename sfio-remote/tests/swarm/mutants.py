#!/usr/bin/env python3
"""Takes each guard of data sets out in turn and lets the swarm of writers run: it must fail each time.

    python3 sfio-remote/tests/swarm/mutants.py [--only NAME] [--seeds 3000] [--list]

Each mutant is a piece of source and what stands in its place; the source is put back afterwards. A mutant whose source is not
found is an error: the guard has moved, and this list must follow it. A mutant that survives all seeds, or does not compile, is
reported, and the exit code is 1.
"""

import argparse, os, re, subprocess, sys, time

CRATE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# name: (what is no longer so, file below sfio-remote/src, source, what stands there instead)
MUTANTS = {}


def swarm(seeds, profile):
    environment = dict(os.environ, SWARM_SEEDS=f"0..{seeds}", SWARM_STOPS="1")
    command = ["cargo", "test", *profile, "-p", "sfio-remote", "--test", "swarm", "what_was", "--", "--nocapture"]
    return subprocess.run(command, cwd=CRATE, env=environment, capture_output=True, text=True)


def try_mutant(name, seeds, profile):
    what, file, source, instead = MUTANTS[name]
    path = os.path.join(CRATE, "src", file)
    with open(path) as original:
        text = original.read()
    if text.count(source) != 1:
        return f"{name}: its source is found {text.count(source)} times in {file}", False
    try:
        with open(path, "w") as mutated:
            mutated.write(text.replace(source, instead))
        began = time.monotonic()
        done = swarm(seeds, profile)
        seconds = time.monotonic() - began
    finally:
        with open(path, "w") as original:
            original.write(text)
    if "error: could not compile" in done.stderr or "error[" in done.stderr:
        return f"{name}: does not compile", False
    if done.returncode == 0:
        return f"{name}: SURVIVES {seeds} seeds ({what})", False
    story = re.search(r"seed (\d+)(?:: (.*)| panicked)", done.stdout + done.stderr)
    words = f"seed {story.group(1)}: {(story.group(2) or 'panics')[:160]}" if story else "without words"
    return f"{name}: killed by {words} ({what}; {seconds:.0f} s)", True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=MUTANTS, action="append", metavar="NAME")
    parser.add_argument("--seeds", type=int, default=3000)
    parser.add_argument("--dev", action="store_true", help="without optimisation, which compiles faster")
    parser.add_argument("--list", action="store_true", help="only say which there are")
    options = parser.parse_args()
    if options.list:
        for name, (what, file, *_) in MUTANTS.items():
            print(f"{name:28} {what} ({file})")
        return
    all_killed = True
    for name in options.only or MUTANTS:
        words, killed = try_mutant(name, options.seeds, [] if options.dev else ["--release"])
        print(words, flush=True)
        all_killed &= killed
    sys.exit(0 if all_killed else 1)


if __name__ == "__main__":
    main()

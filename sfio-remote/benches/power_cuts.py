#!/usr/bin/env python3
"""Power cuts while a tree is restored to XFS, ext4 and btrfs: no file that has its final name is wrong, and a rerun mends all.

    cargo build --release -p sfio-remote && sudo python3 sfio-remote/benches/power_cuts.py [--cuts 20] [--seed 1] [--sfio PROGRAM]

Needs root, loop devices, mkfs.xfs, mkfs.ext4 and mkfs.btrfs. The target is a file system in an image of its own for each cut. On
XFS and ext4 the cut is the ioctl that shuts a file system down: its journal is written, its data is not, which is the worst
that a power loss leaves. Btrfs has no such ioctl in most kernels: its image lies on a file system with reflinks, and the cut is a
clone of the image, which the kernel makes at one instant.
"""

import argparse, fcntl, hashlib, os, random, shutil, signal, subprocess, sys, tempfile, time

SHUT_DOWN = 0x8004587D  # XFS_IOC_GOINGDOWN and EXT4_IOC_SHUTDOWN, _IOR('X', 125, u32)
FLUSH_THE_LOG = 1
CLONE = 0x40049409  # FICLONE
IMAGE_BYTES = {"xfs": 400 << 20, "ext4": 256 << 20, "btrfs": 256 << 20}
MAKE = {"xfs": ("mkfs.xfs", "-q"), "ext4": ("mkfs.ext4", "-q"), "btrfs": ("mkfs.btrfs", "-q")}


def run(*arguments, check=True):
    return subprocess.run(arguments, check=check, capture_output=True, text=True)


def make_image(path, kind):
    with open(path, "wb") as file:
        file.truncate(IMAGE_BYTES[kind])
    run(*MAKE[kind], path)


def mount(image, at):
    os.makedirs(at, exist_ok=True)
    run("mount", "-o", "loop", image, at)


def picture(top):
    """The content of all files that have their final names."""
    found = {}
    for folder, _, names in os.walk(top):
        for name in names:
            if not name.startswith(".sfio-part-"):
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    found[os.path.relpath(path, top)] = hashlib.sha256(file.read()).hexdigest()
    return found


def make_source(top, seed):
    noise = random.Random(seed)
    for number in range(56):
        folder = os.path.join(top, str(number % 7))
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, str(number)), "wb") as file:
            file.write(noise.randbytes(noise.choice((4_000, 100_000, 1_000_000, 3_000_000))))


class Bench:
    def __init__(self, options, root):
        self.options, self.root = options, root
        self.source, self.overlay = os.path.join(root, "source"), os.path.join(root, "overlay")
        make_source(self.source, options.seed)
        self.wanted = picture(self.source)
        self.noise = random.Random(options.seed)
        os.environ["XDG_CACHE_HOME"] = os.path.join(root, "cache")
        self.sfio("overlay", "new", self.overlay, "--plain", "--relays", "0", "--io-nodes", "2")
        self.up = subprocess.Popen([options.sfio, "overlay", "up", self.overlay], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        while "Ctrl-C" not in (line := self.up.stdout.readline()) and not line.startswith("ready") and line:
            pass
        self.sfio("sync", "--overlay", self.overlay, self.source, "local:set")

    def sfio(self, *arguments):
        done = run(self.options.sfio, *arguments, check=False)
        if done.returncode:
            raise RuntimeError(f"sfio {' '.join(arguments)}: code {done.returncode}: {done.stderr}")

    def restore(self, target):
        return ("sync", "--overlay", self.overlay, "local:set", target)

    def cut_once(self, kind, holder, number):
        """One restore, cut at some time; gives the number of wrong files, of whole ones, and whether the rerun mended all."""
        image, at = os.path.join(holder, f"{kind}-{number}"), os.path.join(self.root, "mounted")
        make_image(image, kind)
        mount(image, at)
        target = os.path.join(at, "target")
        process = subprocess.Popen([self.options.sfio, *self.restore(target), "--bwlimit", "40MiB/s"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(self.noise.uniform(0.2, self.options.longest_s))
        if kind == "btrfs":
            with open(image, "rb") as whole, open(image + "-cut", "wb") as clone:
                fcntl.ioctl(clone, CLONE, whole.fileno())
        else:
            folder = os.open(at, os.O_RDONLY)
            fcntl.ioctl(folder, SHUT_DOWN, FLUSH_THE_LOG.to_bytes(4, "little"))
            os.close(folder)
        process.send_signal(signal.SIGKILL)
        process.wait()
        run("umount", at)
        if kind == "btrfs":
            os.replace(image + "-cut", image)
        mount(image, at)
        try:
            found = picture(target) if os.path.isdir(target) else {}
            wrong = [path for path, content in found.items() if self.wanted.get(path) != content]
            self.sfio(*self.restore(target))
            return len(wrong), len(found) - len(wrong), picture(target) == self.wanted
        finally:
            run("umount", at)
            os.remove(image)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    parser.add_argument("--sfio", default=os.path.join(target, "release", "sfio"), help="the program")
    parser.add_argument("--cuts", type=int, default=20, help="for each file system")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--longest-s", type=float, default=3, help="the latest cut, in seconds after the restore began")
    parser.add_argument("--only", choices=MAKE, action="append", help="only this file system")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("it needs root, to mount images")
    failed = False
    root = tempfile.mkdtemp(prefix="power-cuts-")
    reflinks = os.path.join(root, "reflinks")
    bench = None
    try:
        holder = os.path.join(root, "holder")
        with open(holder, "wb") as file:
            file.truncate(2 << 30)
        run(*MAKE["btrfs"], holder)
        mount(holder, reflinks)
        bench = Bench(options, root)
        for kind in options.only or MAKE:
            results = [bench.cut_once(kind, reflinks, number) for number in range(options.cuts)]
            wrong, whole = sum(result[0] for result in results), sum(result[1] for result in results)
            mended = sum(result[2] for result in results)
            print(f"{kind}: {options.cuts} cuts, {whole} whole files, {wrong} wrong ones; the rerun mended {mended} of {options.cuts}", flush=True)
            failed |= wrong > 0 or mended < options.cuts
    finally:
        if bench:
            bench.up.send_signal(signal.SIGINT)
            bench.up.wait()
        run("umount", os.path.join(root, "mounted"), check=False)
        run("umount", reflinks, check=False)
        shutil.rmtree(root)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

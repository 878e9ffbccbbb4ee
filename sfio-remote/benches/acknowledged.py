#!/usr/bin/env python3
"""Whether what `sfio sync` acknowledged stays readable: five stories with real processes, each of which lost data once.

    cargo build --release -p sfio-remote && python3 sfio-remote/benches/acknowledged.py [--sfio PROGRAM] [--only NAME] [--verbose]

    pause      a run is stopped (SIGSTOP) while another one publishes, and goes on
    outage     the links of one member are down while it compares, and the other one publishes
    resume     two members, each with an interrupted run; the first one goes on
    empty      an I/O node comes back without its disk
    flip       a byte at rest flips; the intact source is sent again, and a new file with the same content
    index      the end of every object is destroyed, and the machine that looks has everything in its cache

After each story every generation that a run acknowledged is restored by a machine with an empty cache and compared, unless a
command said with its exit code (5, 3, or 4) what is gone. Exit code 0 if all stories hold, 1 if some do not.
"""

import argparse, glob, hashlib, json, os, random, re, shutil, signal, subprocess, sys, tempfile, time

SITE = "local:set"


class Broken(Exception):
    """What was promised does not hold."""


class Story:
    """An overlay with two clients, and what its runs acknowledged."""

    def __init__(self, options, relays=0):
        self.options = options
        self.root = tempfile.mkdtemp(prefix="acknowledged-")
        self.overlay = os.path.join(self.root, "overlay")
        self.acknowledged = {}
        self.running = None
        self.caches = 0
        self.call("overlay", "new", self.overlay, "--plain", "--relays", str(relays), "--io-nodes", "3")
        self.add_member("other", [f"r{number + 1}" for number in range(relays)] or ["io1", "io2", "io3"])

    def add_member(self, name, neighbours):
        """One more client beside the first one; with relays each client has one of its own."""
        home = os.path.join(self.overlay, name)
        os.makedirs(home)
        keys = self.call("keygen", os.path.join(home, "key")).stdout
        path = os.path.join(self.overlay, "overlay.toml")
        with open(path) as file:
            text = file.read()
        if "relay_for" in text:
            # The client's links go over the first relay alone, those of the other one over the second.
            text = re.sub(r'\n\[\[link\]\]\na = "client"\nb = "r2"\n', "\n", text)
            neighbours = neighbours[1:2]
        links = "".join(f'\n[[link]]\na = "{name}"\nb = "{neighbour}"\n' for neighbour in neighbours)
        head, site = text.split("\n[[site]]", 1)
        with open(path, "w") as file:
            file.write(f'{head}\n[[member]]\nname = "{name}"\n{keys}{links}\n[[site]]{site}')
        with open(os.path.join(home, "config.toml"), "w") as file:
            file.write(f'overlay = "../overlay.toml"\nmember = "{name}"\nkey = "key"\n')
        for config in glob.glob(os.path.join(self.overlay, "io*", "config.toml")):
            with open(config) as file:
                text = file.read()
            # Whatever the client may do, the other one may, too.
            text = re.sub(r"^(\s*)client(\s*=.*)$", rf"\1client\2\n\1{name}\2", text, flags=re.M)
            text = re.sub(r'member = "client"(.*?)(?=\n\[|\Z)', lambda rule: rule.group(0), text, flags=re.S)
            with open(config, "w") as file:
                file.write(text)

    def call(self, *arguments, cache=None):
        environment = dict(os.environ, XDG_CACHE_HOME=cache or os.path.join(self.root, "cache"))
        done = subprocess.run([self.options.sfio, *arguments], capture_output=True, text=True, env=environment)
        if self.options.verbose:
            print(f"    sfio {' '.join(arguments)}\n      code {done.returncode}: {(done.stdout + done.stderr).strip()}")
        return done

    def begin(self, member, tree, *more):
        """Starts to send a tree."""
        environment = dict(os.environ, XDG_CACHE_HOME=os.path.join(self.root, f"cache-{member}"))
        command = [self.options.sfio, "sync", "--config", self.config(member), "--delete", *more, tree, SITE]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    def end(self, process, tree, name):
        """What became of it; an acknowledged generation is noted."""
        stdout, stderr = process.communicate(timeout=900)
        words = (stdout + stderr).strip().splitlines()
        print(f"  {name}: code {process.returncode}: {words[-1] if words else ''}")
        generation = re.search(r"(?:is|stays) at generation (\d+)", stdout)
        if process.returncode == 0 and generation:
            self.acknowledged.setdefault(int(generation.group(1)), []).append((name, picture(tree)))
        return process.returncode

    def sync(self, member, tree, *more, name=None):
        return self.end(self.begin(member, tree, *more), tree, name or f"{member} sends")

    def config(self, member):
        return os.path.join(self.overlay, member, "config.toml")

    def up(self):
        self.running = subprocess.Popen([self.options.sfio, "overlay", "up", self.overlay], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        while True:
            line = self.running.stdout.readline()
            if "Ctrl-C" in line or line.startswith("ready") or not line:
                return

    def down(self):
        if self.running:
            self.running.send_signal(signal.SIGINT)
            self.running.wait()
            self.running = None

    def pid(self, member):
        with open(os.path.join(self.overlay, member, "pid")) as file:
            return int(file.read())

    def files(self, member="io*", below="set"):
        """All files that I/O nodes keep of the data set."""
        found = glob.glob(os.path.join(self.overlay, member, "export", below, "**", "*"), recursive=True)
        return sorted(path for path in found if os.path.isfile(path))

    def stored(self):
        return sum(os.path.getsize(path) for path in self.files())

    def wait_for(self, process, bytes_more):
        """Until so much more has arrived."""
        before = self.stored()
        while self.stored() < before + bytes_more and process.poll() is None:
            time.sleep(0.02)
        if process.poll() is not None:
            raise RuntimeError("the run has ended before it was to be disturbed")

    def verify(self, cache=None, name="verify"):
        done = self.call("verify", "--config", self.config("client"), SITE, cache=cache)
        print(f"  {name}: code {done.returncode}: {(done.stdout + done.stderr).strip().splitlines()[-1]}")
        return done.returncode

    def check(self, may_be_lost=False):
        """Restores everything that was acknowledged, by machines with empty caches."""
        for generation, senders in sorted(self.acknowledged.items()):
            if len({json.dumps(content, sort_keys=True) for _, content in senders}) > 1:
                raise Broken(f"generation {generation} was acknowledged to {' and '.join(name for name, _ in senders)}")
            target = os.path.join(self.root, f"restored-{generation}-{self.caches}")
            self.caches += 1
            cache = os.path.join(self.root, f"empty-{self.caches}")
            done = self.call("sync", "--config", self.config("client"), "--generation", str(generation), SITE, target, cache=cache)
            name, content = senders[0]
            if done.returncode != 0:
                words = (done.stdout + done.stderr).strip().splitlines()[-1]
                if may_be_lost and done.returncode in (3, 4, 5):
                    print(f"  generation {generation} ({name}): code {done.returncode}: {words}")
                    continue
                raise Broken(f"generation {generation} ({name}) is not restored: code {done.returncode}: {words}")
            found = picture(target)
            if found != content:
                wrong = sorted(path for path in content if found.get(path) != content[path])
                raise Broken(f"generation {generation} ({name}) is restored with code 0, but {len(wrong)} of {len(content)} files are wrong")
            print(f"  generation {generation} ({name}) is restored and equal")


def tree(root, name, files, size, seed):
    """A tree of files of noise."""
    noise, top = random.Random(seed), os.path.join(root, name)
    os.makedirs(top, exist_ok=True)
    for number in range(files):
        with open(os.path.join(top, f"{name}-{number}"), "wb") as file:
            file.write(noise.randbytes(size))
    return top


def picture(top):
    """The content of all files."""
    found = {}
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, top)] = hashlib.sha256(file.read()).hexdigest()
    return found


def pause(options):
    story = Story(options)
    story.up()
    try:
        story.sync("client", tree(story.root, "first", 3, 500_000, 1))
        source_a = tree(story.root, "a", 7, 3_000_000, 2)
        a = story.begin("client", source_a, "--bwlimit", "4MiB/s", "--compress", "none")
        story.wait_for(a, 3_000_000)
        a.send_signal(signal.SIGSTOP)
        time.sleep(6)
        story.sync("other", tree(story.root, "b", 7, 1_000_000, 3), "--compress", "none", name="B publishes meanwhile")
        story.verify(name="verify before A goes on")
        a.send_signal(signal.SIGCONT)
        story.end(a, source_a, "A goes on")
        story.check()
    finally:
        story.down()
        shutil.rmtree(story.root)


def outage(options):
    story = Story(options, relays=2)
    story.up()
    try:
        story.sync("client", tree(story.root, "first", 3, 500_000, 1))
        source_a = tree(story.root, "a", 20, 100_000, 2)
        for number in range(options.entries):
            folder = os.path.join(source_a, str(number // 1000))
            if number % 1000 == 0:
                os.makedirs(folder)
            os.symlink("nowhere", os.path.join(folder, str(number)))
        a = story.begin("client", source_a, "--compress", "none")
        time.sleep(options.connect_s)
        relay = story.pid("r1")
        os.kill(relay, signal.SIGSTOP)
        time.sleep(5)
        story.sync("other", tree(story.root, "b", 7, 1_000_000, 3), "--compress", "none", name="B publishes meanwhile")
        time.sleep(1)
        os.kill(relay, signal.SIGCONT)
        story.end(a, source_a, "A, whose links were down")
        story.check()
    finally:
        story.down()
        shutil.rmtree(story.root)


def resume(options):
    story = Story(options)
    story.up()
    try:
        story.sync("client", tree(story.root, "first", 3, 500_000, 1))
        source_x = tree(story.root, "x", 7, 2_000_000, 2)
        source_y = tree(story.root, "y", 7, 2_000_000, 3)
        for member, source in (("client", source_x), ("other", source_y)):
            run = story.begin(member, source, "--bwlimit", "3MiB/s", "--compress", "none")
            story.wait_for(run, 6_000_000 if member == "client" else 3_000_000)
            run.kill()
            run.wait()
            # The claim of a killed run outlives it for some seconds.
            time.sleep(6)
        story.sync("client", source_x, "--compress", "none", name="X goes on")
        story.check()
        story.sync("other", source_y, "--compress", "none", name="Y goes on")
        story.check()
    finally:
        story.down()
        shutil.rmtree(story.root)


def empty(options):
    story = Story(options)
    story.up()
    try:
        story.sync("client", tree(story.root, "first", 3, 2_000_000, 1), "--compress", "none")
        story.down()
        kept = {path: digest(path) for member in ("io2", "io3") for path in story.files(member)}
        export = os.path.join(story.overlay, "io1", "export")
        shutil.move(export, export + "-gone")
        os.makedirs(export)
        story.up()
        time.sleep(2)
        code = story.sync("client", tree(story.root, "second", 3, 2_000_000, 2), "--compress", "none")
        changed = [path for path in kept if "objects" in path and (not os.path.exists(path) or digest(path) != kept[path])]
        if changed:
            raise Broken(f"{len(changed)} of {len(kept)} files on the other I/O nodes were overwritten or removed")
        if code == 0:
            raise Broken("the run says that all is well without the first I/O node's disk")
        story.down()
        shutil.rmtree(export)
        shutil.move(export + "-gone", export)
        story.up()
        story.check()
    finally:
        story.down()
        shutil.rmtree(story.root)


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def flip(options):
    story = Story(options)
    story.up()
    try:
        source = tree(story.root, "source", 1, 900_000, 1)
        story.sync("client", source, "--compress", "none")
        victim = max(story.files(below="set/objects"), key=os.path.getsize)
        with open(victim, "r+b") as file:
            file.seek(1_000)
            byte = file.read(1)[0]
            file.seek(1_000)
            file.write(bytes([byte ^ 1]))
            os.fsync(file.fileno())
        code = story.verify()
        if code != 5:
            raise Broken("verify does not see the damage")
        story.sync("client", source, "--checksum", "--compress", "none", name="the intact source is sent again")
        shutil.copy(os.path.join(source, "source-0"), os.path.join(source, "copy"))
        story.sync("client", source, "--compress", "none", name="a new file with the same content")
        story.check()
        if story.verify() != 0:
            raise Broken("the intact source has healed nothing")
    finally:
        story.down()
        shutil.rmtree(story.root)


def index(options):
    story = Story(options)
    story.up()
    try:
        source = tree(story.root, "source", 200, 3_000, 1)
        story.sync("client", source, "--compress", "none")
        if story.verify(cache=os.path.join(story.root, "cache-client")) != 0:
            raise Broken("verify fails without damage")
        for path in story.files(below="set/objects"):
            with open(path, "r+b") as file:
                file.seek(max(os.path.getsize(path) - 400, 0))
                file.write(bytes(min(os.path.getsize(path), 400)))
                os.fsync(file.fileno())
        code = story.verify(cache=os.path.join(story.root, "cache-client"), name="verify with everything in its cache")
        if code != 5:
            raise Broken("verify looks at the cache, and a machine without one can restore nothing")
        story.check(may_be_lost=True)
    finally:
        story.down()
        shutil.rmtree(story.root)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    stories = {"pause": pause, "outage": outage, "resume": resume, "empty": empty, "flip": flip, "index": index}
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    parser.add_argument("--sfio", default=os.path.join(target, "release", "sfio"), help="the program")
    parser.add_argument("--only", choices=stories, action="append", help="only this story")
    parser.add_argument("--verbose", action="store_true", help="what each command prints")
    parser.add_argument("--entries", type=int, default=400_000, help="of the tree that is compared during the outage")
    parser.add_argument("--connect-s", type=float, default=0.5, help="how long that run may connect before the outage")
    options = parser.parse_args()
    broken = []
    for name in options.only or stories:
        print(name, flush=True)
        try:
            stories[name](options)
            print("  holds", flush=True)
        except Broken as error:
            broken.append(name)
            print(f"  BROKEN: {error}", flush=True)
    print("all hold" if not broken else f"broken: {', '.join(broken)}")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()

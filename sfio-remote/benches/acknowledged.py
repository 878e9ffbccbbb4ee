#!/usr/bin/env python3
"""Whether what `sfio sync` acknowledged stays readable: stories with real processes, most of which lost data once.

    cargo build --release -p sfio-remote && python3 sfio-remote/benches/acknowledged.py [--sfio PROGRAM] [--only NAME] [--verbose]

    pause      a run is stopped (SIGSTOP) while it sends and another one publishes, and goes on
    lid        the same while it compares
    outage     the links of one member are down while it compares, and the other one publishes
    resume     two members, each with an interrupted run; the first one goes on
    empty      the first I/O node comes back without its disk
    older      an I/O node comes back with its disk as it was a generation ago
    lost       an I/O node's disk is replaced by an empty one on purpose; repair, verify, and the source is sent again
    flip       a byte at rest flips; the intact source is sent again, and a new file with the same content
    index      the end of every object is destroyed, and the machine that looks has everything in its cache
    record     a bit of the newest record flips, on the first I/O node and then on all of them
    swapped    a data set is put in the place of another one
    version1   a data set of format 1 is there
    keep       a generation is dropped while a restore of it is under way
    append     a member that may only append tries to take away what there is

After each story every generation that a run acknowledged is restored by a machine with an empty cache and compared, unless a
command said with its exit code (5, 3, or 4) what is gone. Exit code 0 if all stories hold, 1 if some do not. The links are
this machine's loopback; a story takes some ten seconds.
"""

import argparse, glob, hashlib, json, os, random, re, shutil, signal, subprocess, sys, tempfile, time

SITE = "local:set"
LOST, AWAY = 5, 4


class Broken(Exception):
    """What was promised does not hold."""


class Story:
    """An overlay with two clients, whose other members run as processes, and what its runs acknowledged."""

    def __init__(self, options, relays=0, other="read-write"):
        self.options = options
        self.root = tempfile.mkdtemp(prefix="acknowledged-")
        self.overlay = os.path.join(self.root, "overlay")
        self.acknowledged = {}
        self.members = {}
        self.places = 0
        self.call("overlay", "new", self.overlay, "--plain", "--relays", str(relays), "--io-nodes", "3")
        self.add_member("other", [f"r{number + 1}" for number in range(relays)] or ["io1", "io2", "io3"], other)
        listeners = glob.glob(os.path.join(self.overlay, "[ir]*", "config.toml"))
        self.listeners = sorted(os.path.basename(os.path.dirname(config)) for config in listeners)

    def __enter__(self):
        for name in self.listeners:
            self.start(name)
        return self

    def __exit__(self, *_):
        for name in list(self.members):
            self.stop(name, signal.SIGKILL)
        shutil.rmtree(self.root)

    def add_member(self, name, neighbours, right):
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
            with open(config, "w") as file:
                file.write(re.sub(r"^client\s*=.*$", rf'\g<0>\n{name} = "{right}"', text, flags=re.M))

    def start(self, name):
        """Runs a member; says whether it serves."""
        command = [self.options.sfio, "member", "--config", self.config(name)]
        log = open(os.path.join(self.root, f"{name}.log"), "a")
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        self.members[name] = process
        return "is ready" in process.stdout.readline()

    def stop(self, name, how=signal.SIGTERM):
        process = self.members.pop(name)
        process.send_signal(how)
        return process.wait()

    def call(self, *arguments, cache=None):
        environment = dict(os.environ, XDG_CACHE_HOME=cache or os.path.join(self.root, "cache"))
        done = subprocess.run([self.options.sfio, *arguments], capture_output=True, text=True, env=environment)
        if self.options.verbose:
            print(f"    sfio {' '.join(arguments)}\n      code {done.returncode}: {said(done)}")
        return done

    def command(self, name, *arguments, member="client", cache=None):
        """Some command on the data set by a machine that has seen nothing, unless it has a cache; gives its exit code."""
        cache = cache or self.new_place("empty")
        done = self.call(*arguments[:1], "--config", self.config(member), *self.patience(arguments[0]), *arguments[1:], cache=cache)
        print(f"  {name}: code {done.returncode}: {last(said(done))}")
        return done.returncode

    def patience(self, command="sync"):
        """How a command ends soon if an I/O node is away, for programs that would wait."""
        helped = subprocess.run([self.options.sfio, command, "--help"], capture_output=True, text=True).stdout
        return ["--patience", str(self.options.patience)] if "--patience" in helped else []

    def new_place(self, name):
        self.places += 1
        return os.path.join(self.root, f"{name}-{self.places}")

    def cache(self, member):
        return os.path.join(self.root, f"cache-{member}")

    def begin(self, member, tree, *more, patience=()):
        """Starts to send a tree."""
        environment = dict(os.environ, XDG_CACHE_HOME=self.cache(member))
        command = [self.options.sfio, "sync", "--config", self.config(member), "--delete", *patience, *more, tree, SITE]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    def end(self, process, tree, name):
        """What became of it; an acknowledged generation is noted."""
        stdout, stderr = process.communicate(timeout=900)
        print(f"  {name}: code {process.returncode}: {last(stdout + stderr)}")
        generation = re.search(r"(?:is|stays) at generation (\d+)", stdout)
        if process.returncode == 0 and generation:
            self.acknowledged.setdefault(int(generation.group(1)), []).append((name, picture(tree)))
        return process.returncode

    def sync(self, member, tree, *more, name=None, patience=()):
        return self.end(self.begin(member, tree, *more, patience=patience), tree, name or f"{member} sends")

    def config(self, member):
        return os.path.join(self.overlay, member, "config.toml")

    def export(self, member):
        return os.path.join(self.overlay, member, "export")

    def files(self, member="io*", below="set"):
        """All files that I/O nodes keep of the data set."""
        found = glob.glob(os.path.join(self.export(member), below, "**", "*"), recursive=True)
        return sorted(path for path in found if os.path.isfile(path))

    def wait_for(self, process, bytes_more):
        """Until so much more has arrived."""
        stored = lambda: sum(os.path.getsize(path) for path in self.files() if os.path.exists(path))
        before = stored()
        while stored() < before + bytes_more and process.poll() is None:
            time.sleep(0.02)
        if process.poll() is not None:
            raise RuntimeError("the run has ended before it was to be disturbed")

    def wait_for_first_bytes(self, process):
        """Until the first bytes of some object are others than they were."""
        before = self.heads()
        while self.heads() == before and process.poll() is None:
            time.sleep(0.002)
        if process.poll() is not None:
            raise RuntimeError("the run has ended before it was to be disturbed")

    def heads(self):
        heads = {}
        for path in self.files():
            if "objects" in path:
                with open(path, "rb") as file:
                    heads[path] = file.read(4096)
        return {path: head for path, head in heads.items() if head}

    def check(self, may_be_lost=False):
        """Restores everything that was acknowledged, by machines with empty caches."""
        for generation, senders in sorted(self.acknowledged.items()):
            if len({json.dumps(content, sort_keys=True) for _, content in senders}) > 1:
                raise Broken(f"generation {generation} was acknowledged to {' and '.join(name for name, _ in senders)}")
            target, (name, content) = self.new_place("restored"), senders[0]
            done = self.call("sync", "--config", self.config("client"), *self.patience(), "--generation", str(generation), SITE,
                             target, cache=self.new_place("empty"))
            if done.returncode != 0:
                if may_be_lost and done.returncode in (3, AWAY, LOST):
                    print(f"  generation {generation} ({name}): code {done.returncode}: {last(said(done))}")
                    continue
                raise Broken(f"generation {generation} ({name}) is not restored: code {done.returncode}: {last(said(done))}")
            found = picture(target)
            if found != content:
                wrong = sorted(path for path in content if found.get(path) != content[path])
                raise Broken(f"generation {generation} ({name}) is restored with code 0, but {len(wrong)} of {len(content)} files are wrong")
            print(f"  generation {generation} ({name}) is restored and equal")

    def must(self, what, holds):
        if not holds:
            raise Broken(what)


def said(done):
    return (done.stdout + done.stderr).strip()


def last(words):
    lines = words.strip().splitlines()
    return lines[-1][:300] if lines else ""


def tree(story, name, files, size, seed):
    """A tree of files of noise."""
    noise, top = random.Random(seed), os.path.join(story.root, name)
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
            content = os.readlink(path).encode() if os.path.islink(path) else open(path, "rb").read()
            found[os.path.relpath(path, top)] = hashlib.sha256(content).hexdigest()
    return found


def flip_bit(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))
        os.fsync(file.fileno())


def pause(options):
    with Story(options) as story:
        story.sync("client", tree(story, "first", 3, 500_000, 1))
        source_a = tree(story, "a", 7, 3_000_000, 2)
        a = story.begin("client", source_a, "--bwlimit", "4MiB/s", "--compress", "never")
        story.wait_for(a, 3_000_000)
        a.send_signal(signal.SIGSTOP)
        time.sleep(6)
        story.sync("other", tree(story, "b", 7, 1_000_000, 3), "--compress", "never", name="B publishes meanwhile")
        story.command("verify before A goes on", "verify", SITE)
        a.send_signal(signal.SIGCONT)
        story.end(a, source_a, "A goes on")
        story.check()


def lid(options):
    with Story(options) as story:
        while_comparing(story, lambda a: a, "A goes on")


def outage(options):
    with Story(options, relays=2) as story:
        while_comparing(story, lambda a: story.members["r1"], "A, whose links were down")


def while_comparing(story, stopped, name):
    """A is interrupted while it compares many entries, by stopping some process, and B publishes meanwhile."""
    story.sync("client", tree(story, "first", 3, 500_000, 1))
    source_a = tree(story, "a", 20, 100_000, 2)
    for number in range(story.options.entries):
        folder = os.path.join(source_a, str(number // 1000))
        if number % 1000 == 0:
            os.makedirs(folder)
        os.symlink("nowhere", os.path.join(folder, str(number)))
    a = story.begin("client", source_a, "--compress", "never")
    time.sleep(story.options.connect_s)
    process = stopped(a)
    process.send_signal(signal.SIGSTOP)
    time.sleep(5)
    story.sync("other", tree(story, "b", 7, 1_000_000, 3), "--compress", "never", name="B publishes meanwhile")
    time.sleep(1)
    process.send_signal(signal.SIGCONT)
    story.end(a, source_a, name)
    story.check()


def resume(options):
    with Story(options) as story:
        story.sync("client", tree(story, "first", 3, 500_000, 1))
        source_x = tree(story, "x", 7, 2_000_000, 2)
        source_y = tree(story, "y", 7, 2_000_000, 3)
        for member, source in (("client", source_x), ("other", source_y)):
            run = story.begin(member, source, "--bwlimit", "3MiB/s", "--compress", "never")
            if member == "client":
                story.wait_for(run, 6_000_000)
            else:
                # Y ends before its journal says anything: X's journal is still there.
                story.wait_for_first_bytes(run)
            run.kill()
            run.wait()
            # The claim of a killed run outlives it for some seconds.
            time.sleep(6)
        story.sync("client", source_x, "--compress", "never", name="X goes on")
        story.check()
        story.sync("other", source_y, "--compress", "never", name="Y goes on")
        story.check()


def empty(options):
    with Story(options) as story:
        story.sync("client", tree(story, "first", 3, 2_000_000, 1), "--compress", "never")
        story.stop("io1")
        kept = {path: digest(path) for member in ("io2", "io3") for path in story.files(member)}
        export = story.export("io1")
        shutil.move(export, export + "-gone")
        os.makedirs(export)
        if not story.start("io1"):
            print(f"  io1 does not serve: code {story.members['io1'].wait()}")
        code = story.sync("client", tree(story, "second", 3, 2_000_000, 2), "--compress", "never", patience=story.patience())
        changed = [path for path in kept if "objects" in path and (not os.path.exists(path) or digest(path) != kept[path])]
        story.must(f"{len(changed)} of {len(kept)} files on the other I/O nodes were overwritten or removed", not changed)
        story.must("the run says that all is well without the first I/O node's disk", code != 0)
        story.stop("io1")
        shutil.rmtree(export)
        shutil.move(export + "-gone", export)
        story.start("io1")
        story.check()


def older(options):
    with Story(options) as story:
        source = tree(story, "source", 3, 700_000, 1)
        story.sync("client", source, "--compress", "never")
        for io_node in ("io1", "io3"):
            story.stop(io_node)
            export = story.export(io_node)
            subprocess.run(["cp", "-a", export, export + "-old"], check=True)
            story.start(io_node)
            tree(story, "source", 4, 700_000, io_node)
            story.sync("client", source, "--compress", "never")
            tree(story, "source", 3, 700_000, io_node + "again")
            story.sync("client", source, "--compress", "never")
            story.stop(io_node)
            shutil.rmtree(export)
            shutil.move(export + "-old", export)
            story.start(io_node)
            code = story.sync("other", source, "--compress", "never", name=f"a sync while {io_node} has an older disk", patience=story.patience())
            story.must("something is acknowledged although an I/O node has gone back", code == LOST)
            story.must("verify says that all is well", story.command("verify", "verify", SITE) == LOST)
            story.check(may_be_lost=True)
            mend(story, source)


def lost(options):
    with Story(options) as story:
        source = tree(story, "source", 5, 700_000, 1)
        story.sync("client", source, "--compress", "never")
        story.stop("io2")
        shutil.rmtree(story.export("io2"))
        os.makedirs(story.export("io2"))
        os.remove(os.path.join(story.overlay, "io2", "export.identity"))
        story.start("io2")
        code = story.sync("other", source, "--compress", "never", name="a sync without io2's disk", patience=story.patience())
        story.must("something is acknowledged although an I/O node has lost its disk", code == LOST)
        story.check(may_be_lost=True)
        mend(story, source)


def mend(story, source):
    """What the docs say is to be done after a loss; then everything whose content the source has is whole again."""
    story.command("repair", "repair", SITE)
    story.must("verify does not see what is lost", story.command("verify after the repair", "verify", SITE) == LOST)
    code = story.sync("client", source, "--compress", "never", name="the source is sent again", patience=story.patience())
    story.must("the source cannot be sent again", code == 0)
    whole = {number: senders for number, senders in story.acknowledged.items() if senders[0][1] == picture(source)}
    story.acknowledged, gone = whole, [number for number in story.acknowledged if number not in whole]
    for number in gone:
        story.command(f"forget {number}, whose content nobody has", "forget", SITE, str(number))
    story.check()
    story.must("verify still finds damage", story.command("verify in the end", "verify", SITE) == 0)


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def flip(options):
    with Story(options) as story:
        source = tree(story, "source", 1, 900_000, 1)
        story.sync("client", source, "--compress", "never")
        flip_bit(max(story.files(below="set/objects"), key=os.path.getsize), 1_000)
        story.must("verify does not see the damage", story.command("verify", "verify", SITE) == LOST)
        story.sync("client", source, "--checksum", "--compress", "never", name="the intact source is sent again")
        shutil.copy(os.path.join(source, "source-0"), os.path.join(source, "copy"))
        story.sync("client", source, "--compress", "never", name="a new file with the same content")
        story.check()
        story.must("the intact source has healed nothing", story.command("verify", "verify", SITE) == 0)


def index(options):
    with Story(options) as story:
        source = tree(story, "source", 200, 3_000, 1)
        story.sync("client", source, "--compress", "never")
        cache = story.cache("client")
        story.must("verify fails without damage", story.command("verify", "verify", SITE, cache=cache) == 0)
        for path in story.files(below="set/objects"):
            with open(path, "r+b") as file:
                file.seek(max(os.path.getsize(path) - 400, 0))
                file.write(bytes(min(os.path.getsize(path), 400)))
                os.fsync(file.fileno())
        code = story.command("verify with everything in its cache", "verify", SITE, cache=cache)
        story.must("verify looks at the cache, and a machine without one can restore nothing", code == LOST)
        story.check(may_be_lost=True)
        story.sync("client", source, "--compress", "never", name="the intact source is sent again")
        story.check()
        story.must("verify still finds damage", story.command("verify", "verify", SITE) == 0)


def record(options):
    with Story(options) as story:
        source = tree(story, "source", 3, 500_000, 1)
        story.sync("client", source)
        commits = [max(story.files(io_node, "set/commit*")) for io_node in ("io1", "io2", "io3") if story.files(io_node, "set/commit*")]
        flip_bit(commits[0], 60)
        story.check()
        story.must("verify does not see the damage", story.command("verify", "verify", SITE) == LOST)
        story.must("repair cannot repair it", story.command("repair", "repair", SITE) == 0)
        story.must("verify still finds damage", story.command("verify", "verify", SITE) == 0)
        for path in commits:
            flip_bit(path, 60)
        story.check(may_be_lost=True)
        story.must("verify does not see the damage", story.command("verify", "verify", SITE) == LOST)
        code = story.sync("client", source, name="a sync while no record is whole")
        story.must("something is acknowledged", code == LOST)
        story.acknowledged.clear()


def swapped(options):
    with Story(options) as story:
        story.sync("client", tree(story, "first", 3, 500_000, 1))
        plant = tree(story, "plant", 1, 10_000, 2)
        os.chmod(os.path.join(plant, "plant-0"), 0o6755)
        story.command("another data set", "sync", plant, "local:planted")
        target = story.new_place("restored")
        story.command("a restore under its own name", "sync", "local:planted", target)
        mode = os.stat(os.path.join(target, "plant-0")).st_mode
        story.must("a set-uid file was planted without an option that says so", not mode & 0o6000)
        for io_node in ("io1", "io2", "io3"):
            place = lambda name: os.path.join(story.export(io_node), name)
            move_while_stopped(story, io_node, (place("set"), place("aside")), (place("planted"), place("set")))
        for name, arguments in (("a restore", ("sync", SITE, story.new_place("restored"))), ("verify", ("verify", SITE))):
            code = story.command(f"{name} of a data set in the place of another one", *arguments)
            story.must("a data set in the place of another one is taken for it", code == LOST)
        for io_node in ("io1", "io2", "io3"):
            place = lambda name: os.path.join(story.export(io_node), name)
            move_while_stopped(story, io_node, (place("set"), place("planted")), (place("aside"), place("set")))
        story.check()


def move_while_stopped(story, io_node, *moves):
    """An I/O node that runs may have files open that are moved."""
    story.stop(io_node)
    for old, new in moves:
        shutil.move(old, new)
    story.start(io_node)


def version1(options):
    with Story(options) as story:
        os.makedirs(os.path.join(story.export("io1"), "set"))
        with open(os.path.join(story.export("io1"), "set", "commit"), "wb") as file:
            file.write(b"SFIOSET1" + bytes(109))
        source = tree(story, "source", 1, 1_000, 1)
        for name, arguments in (("sync", (source, SITE)), ("ls", (SITE,)), ("verify", (SITE,)), ("repair", (SITE,))):
            story.must(f"{name} goes on", story.command(name, name, *arguments) == 3)


def keep(options):
    with Story(options) as story:
        source = tree(story, "source", 6, 2_000_000, 1)
        story.sync("client", source, "--compress", "never")
        content, target = picture(source), story.new_place("restored")
        command = [options.sfio, "sync", "--config", story.config("other"), "--bwlimit", "3MiB/s", SITE, target]
        environment = dict(os.environ, XDG_CACHE_HOME=story.cache("other"))
        restore = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        while not os.path.exists(target):
            time.sleep(0.02)
        for seed in (2, 3):
            tree(story, "source", 6, 2_000_000, seed)
            story.sync("client", source, "--compress", "never", "--keep", "1", name="a sync that keeps one generation")
        stdout, stderr = restore.communicate(timeout=900)
        print(f"  the restore: code {restore.returncode}: {last(stdout + stderr)}")
        story.must("the restore was broken", restore.returncode == 0 and picture(target) == content)
        story.acknowledged = {number: senders for number, senders in story.acknowledged.items() if number == 3}
        story.check()


def append(options):
    with Story(options, other="append") as story:
        source = tree(story, "source", 3, 500_000, 1)
        story.sync("client", source)
        tree(story, "source", 3, 500_000, 2)
        code = story.sync("other", source, "--keep", "1", name="the other one adds a generation and would keep one")
        story.must("it may not even append", code == 0)
        for name, arguments in (("rollback", (SITE, "1")), ("forget", (SITE, "1")), ("rm", ("io1,set/commits/00000000000000000001",))):
            story.must(f"{name} is allowed", story.command(name, name, *arguments, member="other") != 0)
        story.check()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    stories = {story.__name__: story for story in (pause, lid, outage, resume, empty, older, lost, flip, index, record, swapped,
                                                   version1, keep, append)}
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    parser.add_argument("--sfio", default=os.path.join(target, "release", "sfio"), help="the program")
    parser.add_argument("--only", choices=stories, action="append", help="only this story")
    parser.add_argument("--verbose", action="store_true", help="what each command prints")
    parser.add_argument("--entries", type=int, default=400_000, help="of the tree that is compared during the outage")
    parser.add_argument("--connect-s", type=float, default=0.5, help="how long that run may connect before the outage")
    parser.add_argument("--patience", default="5s", help="how long commands wait for an I/O node that does not come back")
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

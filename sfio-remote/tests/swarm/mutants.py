#!/usr/bin/env python3
"""Takes each guard of data sets out in turn and lets the swarm of writers run, or a test of that guard: it must fail each time.

    python3 sfio-remote/tests/swarm/mutants.py [--only NAME] [--seeds 3000] [--list] [--release]

The sources are changed for as long as this runs, and put back whatever happens: each guard gets a condition that a variable of
the environment fulfils, so that one build holds all mutants. A mutant whose source is not found is an error: the guard has moved,
and this list must follow it. A mutant that survives all seeds is reported, and the exit code is 1.
"""

import argparse, json, os, re, subprocess, sys, time

CRATE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SWITCH = """
/// Whether a guard is taken out, for the length of a run of tests/swarm/mutants.py.
pub(crate) fn mutant(name: &str) -> bool {
    static NAME: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    NAME.get_or_init(|| std::env::var("MUTANT").unwrap_or_default()) == name
}
"""

# name: (what is no longer so, file below sfio-remote/src, source, what stands there instead; MUTANT is the condition)
MUTANTS = {
    "publish-over": (
        "a record replaces another one of its number", "io_node/publication.rs",
        "            Some(Ok(occupant)) => return Err(self.taken(occupant)),\n            Some(Err(damage))",
        "            Some(Ok(occupant)) if !MUTANT => return Err(self.taken(occupant)),\n            Some(Ok(_)) => {}\n            Some(Err(damage))"),
    "predecessor": (
        "a record may follow another one than it names", "replication/record/succession.rs",
        "if self.number != newest + 1 || self.predecessor != hash {",
        "if !MUTANT && (self.number != newest + 1 || self.predecessor != hash) {"),
    "numbers": (
        "numbers of objects and generations may be used again", "replication/record/succession.rs",
        "        succession.keeps_numbers()?;",
        "        if !MUTANT {\n            succession.keeps_numbers()?;\n        }"),
    "condemned-here": (
        "an I/O node lets a record name what was condemned", "replication/record/succession.rs",
        "if let Some(entry) = self.objects.iter().find(|entry| condemned.contains(&entry.run)) {",
        "if !MUTANT && let Some(entry) = self.objects.iter().find(|entry| condemned.contains(&entry.run)) {"),
    "append-only": (
        "append allows everything", "replication/record/succession.rs",
        "Right::Append => succession.only_adds(),",
        "Right::Append if MUTANT => Ok(()),\n            Right::Append => succession.only_adds(),"),
    "object-is-there": (
        "a record may name an object of which an I/O node has nothing", "io_node/publication.rs",
        "outcome.map_err(|error| missing_object(run, error))?;",
        "if !MUTANT {\n                        outcome.map_err(|error| missing_object(run, error))?;\n                    }"),
    "session-bound-sync": (
        "a sync counts for what another session wrote", "io_node/admission.rs",
        "            (RequestKind::Grow { .. } | RequestKind::Sync { .. }, _) => {",
        "            (RequestKind::Sync { .. }, _) if MUTANT => Ok(()),\n            (RequestKind::Grow { .. } | RequestKind::Sync { .. }, _) => {"),
    "write-once": (
        "any session writes to what is written once, and its sync counts", "io_node/write_once.rs",
        "        match self.is_written_by(path, session) {\n            true => Ok(()),",
        "        match self.is_written_by(path, session) {\n            _ if MUTANT => Ok(()),\n            true => Ok(()),"),
    "changed-otherwise": (
        "objects are cut, extended and removed like any file", "io_node/admission.rs",
        "            (other, _) if changes_something(other) => {",
        "            (other, _) if !MUTANT && changes_something(other) => {"),
    "renamed": (
        "objects are renamed like any file", "io_node/admission.rs",
        "                refuse_other_than_free(path)?;\n                refuse_other_than_free(target)?;",
        "                if !MUTANT {\n                    refuse_other_than_free(path)?;\n                }\n                refuse_other_than_free(target)?;"),
    "grace": (
        "what is condemned is removed at once", "io_node/reclamation.rs",
        "            left if left.is_zero() => Ok(()),",
        "            left if left.is_zero() || MUTANT => Ok(()),"),
    "reclaim-condemned-only": (
        "what the newest record does not condemn is removed, too", "io_node/reclamation.rs",
        "        match record.condemned.contains(&self.run) {",
        "        match record.condemned.contains(&self.run) || MUTANT {"),
    "reader-memory": (
        "nobody minds that a data set went back", "io/replication/chain.rs",
        "        let Some(seen) = seen.filter(|_| !self.accepts_older) else { return Ok(()) };\n        let is_there",
        "        let Some(seen) = seen.filter(|_| !self.accepts_older && !MUTANT) else { return Ok(()) };\n        let is_there"),
    "disagreement": (
        "a run publishes although I/O nodes disagree", "io/replication/chain.rs",
        "        match self.disagreements.as_slice() {\n            [] => Ok(()),",
        "        match self.disagreements.as_slice() {\n            _ if MUTANT => Ok(()),\n            [] => Ok(()),"),
    "all-nodes-are-asked": (
        "only the first I/O node's records count", "io/replication/chain.rs",
        "        let newest = highest(&looks);",
        "        let newest = if MUTANT { looks[0].highest } else { highest(&looks) };"),
    "damaged-is-unknown": (
        "damaged chunks count as known", "io/replication/send/base.rs",
        "known.retain(|chunk| !record.is_damaged(chunk));",
        "known.retain(|chunk| MUTANT || !record.is_damaged(chunk));"),
    "sizes-of-objects": (
        "nobody compares the sizes of objects", "io/replication/parts.rs",
        "        for entry in &record.objects {\n            let missing",
        "        for entry in record.objects.iter().filter(|_| !MUTANT) {\n            let missing"),
    "durable-before-published": (
        "a record is published before its objects are durable", "io/replication/send/run.rs",
        "        if needs_sync {",
        "        if needs_sync && !MUTANT {"),
    "empty-parts": (
        "the name of an object's part without bytes is not synced", "io/replication/send/write_window.rs",
        "                    tokio::try_join!(written, file.sync_all()).map(|_| ())",
        "                    match MUTANT {\n                        true => written.await,\n"
        "                        false => tokio::try_join!(written, file.sync_all()).map(|_| ()),\n                    }"),
    "durable-before-journaled": (
        "the journal tells of chunks that are not durable", "io/replication/send/checkpoints.rs",
        "            object.file().await?.sync_all().await?;",
        "            if !MUTANT {\n                object.file().await?.sync_all().await?;\n            }"),
    "published-durably": (
        "a record's new name is not synced", "io_node/publication.rs",
        "DiskAction::Rename { target, replace: proposal.replaces, durable: true }",
        "DiskAction::Rename { target, replace: proposal.replaces, durable: !MUTANT }"),
    "published-everywhere": (
        "a run says 0 when one I/O node has its record", "io/replication/publish.rs",
        "                Err(error) => failure = Some(error),",
        "                Err(_) if MUTANT => {}\n                Err(error) => failure = Some(error),"),
    "lost-reply": (
        "who hears nothing of its publication believes that it failed, and sends again", "io/replication/publish.rs",
        "            Some((true, _)) => return Ok(Race::Won),",
        "            Some((true, _)) if !MUTANT => return Ok(Race::Won),\n            Some((true, _)) => return Ok(Race::Lost),"),
    "root-identity": (
        "an export root without its identity is served", "store/identity.rs",
        "        (Some(remembered), None) => Err(WrongRoot::Unmarked(remembered)),",
        "        (Some(_), None) if MUTANT => Ok(Verdict::New),\n        (Some(remembered), None) => Err(WrongRoot::Unmarked(remembered)),"),
    "restore-syncs": (
        "restored files get their names before they are on the disk", "io/replication/planting.rs",
        "        let work = move || sync_all(file_systems);",
        "        let work = move || if MUTANT { Ok(()) } else { sync_all(file_systems) };"),
}

# Guards that the seeds of the swarm meet too seldom, or not at all, and the test that tries each at every operation: its
# program and its name.
TRIED_BY = {
    "restore-syncs": ("swarm", "no_power_cut_at_any_operation_of_a_restore_leaves_a_wrong_file"),
    "empty-parts": ("replication", "a_small_run_needs_no_repair_whichever_io_node_loses_its_power"),
}


def tried_by(name):
    """The test program that must fail without a guard, and which of its tests, if not all."""
    program, *tests = TRIED_BY.get(name, ("swarm",))
    return program, tests


def changed_files(names):
    """The text of each file with all mutants in it."""
    texts, problems = {}, []
    for name in names:
        what, file, source, instead = MUTANTS[name]
        text = texts.get(file)
        if text is None:
            with open(os.path.join(CRATE, "src", file)) as original:
                text = original.read()
        if text.count(source) != 1:
            problems.append(f"{name}: its source is found {text.count(source)} times in {file}")
            continue
        texts[file] = text.replace(source, instead.replace("MUTANT", f'crate::mutant("{name}")'))
    with open(os.path.join(CRATE, "src", "lib.rs")) as original:
        texts["lib.rs"] = original.read() + SWITCH
    return texts, problems


def build(profile, programs):
    """The test programs with all mutants in them, by name."""
    command = ["cargo", "test", *profile, "-p", "sfio-remote", "--no-run", "--message-format=json"]
    command += [word for program in programs for word in ("--test", program)]
    done = subprocess.run(command, cwd=CRATE, capture_output=True, text=True)
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0:
        errors = [m["message"]["rendered"] for m in messages if m.get("message", {}).get("level") == "error"]
        sys.exit("the mutants do not compile:\n" + "\n".join(errors) + done.stderr[-2000:])
    built = {m["target"]["name"]: m["executable"] for m in messages if m.get("executable")}
    return {program: built[program] for program in programs}


def with_mutants(names, profile):
    texts, problems = changed_files(names)
    originals = {}
    for file in texts:
        with open(os.path.join(CRATE, "src", file)) as original:
            originals[file] = original.read()
    try:
        for file, text in texts.items():
            with open(os.path.join(CRATE, "src", file), "w") as mutated:
                mutated.write(text)
        built = build(profile, sorted({tried_by(name)[0] for name in names}))
        copies = {program: file + "-mutants" for program, file in built.items()}
        for program, copy in copies.items():
            subprocess.run(["cp", built[program], copy], check=True)
    finally:
        for file, text in originals.items():
            with open(os.path.join(CRATE, "src", file), "w") as original:
                original.write(text)
    return copies, problems


def try_mutant(programs, name, seeds):
    """What became of it, and whether it is killed."""
    program, tests = tried_by(name)
    environment = dict(os.environ, MUTANT=name, SWARM_SEEDS=f"0..{seeds}", SWARM_STOPS="1")
    began = time.monotonic()
    done = subprocess.run([programs[program], "--nocapture", *tests], cwd=CRATE, env=environment, capture_output=True, text=True)
    seconds, what = time.monotonic() - began, MUTANTS[name][0]
    if done.returncode == 0:
        tried = f"the test {tests[0]}" if tests else f"{seeds} seeds"
        return f"{name}: SURVIVES {tried} ({what}; {seconds:.0f} s)", False
    words = done.stdout + done.stderr
    story = not tests and re.search(r"seed (\d+)(?:: (.*)| panicked)", words)
    if not story:
        panic = re.search(r"panicked at .*\n(.*)", words)
        return f"{name}: killed: {panic.group(1)[:160] if panic else 'without words'} ({what}; {seconds:.0f} s)", True
    return f"{name}: killed by seed {story.group(1)}: {(story.group(2) or 'panics')[:160]} ({what}; {seconds:.0f} s)", True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=MUTANTS, action="append", metavar="NAME")
    parser.add_argument("--seeds", type=int, default=3000)
    parser.add_argument("--release", action="store_true", help="with optimisation")
    parser.add_argument("--list", action="store_true", help="only say which there are, and whether their sources are found")
    options = parser.parse_args()
    names = options.only or list(MUTANTS)
    if options.list:
        _, problems = changed_files(names)
        for name in names:
            what, file, *_ = MUTANTS[name]
            print(f"{name:28} {what} ({file})")
        sys.exit("\n".join(problems) if problems else 0)
    programs, problems = with_mutants(names, ["--release"] if options.release else [])
    print("\n".join(problems), end="\n" if problems else "", flush=True)
    all_killed = not problems
    try:
        for name in names:
            words, killed = try_mutant(programs, name, options.seeds)
            print(words, flush=True)
            all_killed &= killed
    finally:
        for program in programs.values():
            os.remove(program)
    sys.exit(0 if all_killed else 1)


if __name__ == "__main__":
    main()

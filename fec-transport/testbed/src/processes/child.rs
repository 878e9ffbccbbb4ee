//! Processes: starting oneself again, and talking to the children.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child as Process, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use tokio::runtime::Builder;

use super::job::{Job, MemberJob};
use super::snapshot::Snapshot;
use super::{competitor, member, messages};

/// The argument that makes a benchmark a child.
const CHILD: &str = "--child";

/// Whether this process is a child; then it has done its job, and the result says how it went.
pub fn run_if_child() -> Option<Result<()>> {
    (std::env::args().nth(1).as_deref() == Some(CHILD)).then(run)
}

/// The threads of a job bear its role as their name, which tells a profile what they are.
fn run() -> Result<()> {
    let job: Job = serde_json::from_str(&read_line()?.context("no job came")?)?;
    let role = job.role();
    match job {
        // An endpoint has a thread of its own, named after the one that starts it.
        Job::Member(job) => {
            let thread = thread::Builder::new().name(role.into()).spawn(move || run_member(job));
            thread.context("a thread")?.join().map_err(|_| anyhow!("the member panicked"))?
        }
        // With one worker quinn carries a fifth more than with two, which wake one another as those of an endpoint did.
        Job::Competitor(job) => {
            let mut builder = Builder::new_multi_thread();
            let runtime =
                builder.worker_threads(1).thread_name(role).enable_all().build().context("tokio")?;
            runtime.block_on(competitor::run(job))
        }
        Job::Messages(job) => messages::run(&job),
    }
}

/// Many members in one process share this thread.
fn run_member(job: MemberJob) -> Result<()> {
    let mut builder = match job.beside.is_empty() {
        true => Builder::new_multi_thread(),
        false => Builder::new_current_thread(),
    };
    builder.worker_threads(1).enable_all().build().context("tokio")?.block_on(member::run(job))
}

/// Whether the parent wants a snapshot; it has heard enough otherwise.
pub(crate) async fn is_asked() -> Result<bool> {
    Ok(tokio::task::spawn_blocking(read_line).await??.is_some())
}

pub(crate) fn read_line() -> Result<Option<String>> {
    let mut line = String::new();
    let length = std::io::stdin().read_line(&mut line).context("reading from the parent")?;
    Ok((length > 0).then_some(line))
}

/// Tells the parent that the other processes may begin.
pub(crate) fn say_ready() {
    println!("ready");
}

pub(crate) fn say(snapshot: &Snapshot) -> Result<()> {
    println!("{}", serde_json::to_string(snapshot)?);
    Ok(())
}

/// A child, as the parent sees it; it ends when it is dropped.
pub struct Child {
    process: Process,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Child {
    /// Starts a process and waits until it is ready.
    pub fn start(job: &Job) -> Result<Child> {
        let mut process = Command::new(std::env::current_exe().context("this program's own path")?)
            .arg(CHILD)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting a process")?;
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().context("a pipe")?);
        let mut child = Child { process, input, output };
        child.tell(&serde_json::to_string(job)?)?;
        match child.line()?.as_str() {
            "ready" => Ok(child),
            other => bail!("a process said \"{other}\" instead of \"ready\""),
        }
    }

    /// What it has done so far.
    pub fn snapshot(&mut self) -> Result<Snapshot> {
        self.tell("snapshot")?;
        Ok(serde_json::from_str(&self.line()?)?)
    }

    /// Its process id, for a profiler.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    fn tell(&mut self, line: &str) -> Result<()> {
        let input = self.input.as_mut().context("the process is ending")?;
        writeln!(input, "{line}").context("a process has ended before its time")
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line).context("reading from a process")? == 0 {
            bail!("a process has ended before its time");
        }
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.input = None;
        // It may be gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What `children` do from `warm_up` on for so long: differences of snapshots in their order.
pub fn measure(children: &mut [Child], warm_up: Duration, span: Duration) -> Result<Vec<Snapshot>> {
    std::thread::sleep(warm_up);
    let before = children.iter_mut().map(Child::snapshot).collect::<Result<Vec<_>>>()?;
    std::thread::sleep(span);
    let after = children.iter_mut().map(Child::snapshot).collect::<Result<Vec<_>>>()?;
    Ok(after.iter().zip(&before).map(|(after, before)| after.since(before)).collect())
}

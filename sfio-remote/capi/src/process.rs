//! The process of the member that the program is: one for the whole program, started when it is first needed.

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_int};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sfio_remote::compression::Compression;
use sfio_remote::io::membership::Membership;
use sfio_remote::io::{MemberConfig, blocking};
use sfio_remote::name::FileName;

use crate::error::{Failure, MResult, Outcome, call};

/// The environment variable that names the config file for a program that does not call m_init.
const CONFIG_VARIABLE: &str = "SFIO_CONFIG";

/// The member, and the I/O nodes whose errors are counted.
pub struct Process {
    pub member: blocking::Member,
    /// The I/O nodes of the overlay's sites, and of every name that the program has used.
    io_nodes: Mutex<BTreeSet<String>>,
    /// The group of m_group.
    group: Mutex<Option<blocking::Group>>,
}

/// How files are compressed on their way that are opened from now on.
static COMPRESSION: Mutex<Compression> = Mutex::new(Compression::Auto);

static PROCESS: Mutex<Option<Arc<Process>>> = Mutex::new(None);

impl Process {
    fn start(config: &Path) -> Outcome<Process> {
        let membership =
            Membership::load(config).map_err(|error| Failure::new(MResult::M_ERR_CONFIG, error))?;
        let io_nodes = membership.overlay.sites().iter().flat_map(|site| site.io_nodes.clone());
        let io_nodes = Mutex::new(io_nodes.map(|member| membership.overlay.name(member)).collect());
        let member = blocking::Member::start(membership.endpoint(), MemberConfig::default())?;
        Ok(Process { member, io_nodes, group: Mutex::new(None) })
    }

    pub fn group(&self) -> Option<blocking::Group> {
        lock(&self.group).clone()
    }

    pub fn set_group(&self, group: Option<blocking::Group>) {
        *lock(&self.group) = group;
    }

    /// Takes note of the I/O nodes of a name.
    pub fn note(&self, name: &FileName) {
        let members = name.subfiles().iter().map(|subfile| subfile.member().to_owned());
        lock(&self.io_nodes).extend(members);
    }

    pub fn io_nodes(&self) -> BTreeSet<String> {
        lock(&self.io_nodes).clone()
    }
}

pub fn compression() -> Compression {
    *lock(&COMPRESSION)
}

pub fn set_compression(compression: Compression) {
    *lock(&COMPRESSION) = compression;
}

/// The process, which is started if it was not yet.
pub fn current() -> Outcome<Arc<Process>> {
    let mut process = lock(&PROCESS);
    if let Some(process) = &*process {
        return Ok(Arc::clone(process));
    }
    let config = std::env::var_os(CONFIG_VARIABLE).map(PathBuf::from).ok_or_else(|| {
        let words = format!("no config file: call m_init, or set {CONFIG_VARIABLE}");
        Failure::new(MResult::M_ERR_CONFIG, words)
    })?;
    let started = Arc::new(Process::start(&config)?);
    *process = Some(Arc::clone(&started));
    Ok(started)
}

/// Becomes the member that a config file describes. Without this call it is the file that SFIO_CONFIG names.
///
/// # Safety
/// `config` is null or a text that ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m_init(config: *const c_char) -> c_int {
    call(|| {
        // SAFETY: as this function's.
        let config = unsafe { text(config, "the path of the config file") }?;
        let mut process = lock(&PROCESS);
        if process.is_some() {
            return Err(Failure::argument("the program is a member already; call m_finalize before"));
        }
        *process = Some(Arc::new(Process::start(Path::new(config))?));
        Ok(())
    })
}

/// Leaves the overlay, and the group. Files must have been closed, and requests be done, before. A program that ends
/// without this call only leaves it to the I/O nodes to notice.
#[unsafe(no_mangle)]
pub extern "C" fn m_finalize() -> c_int {
    call(|| {
        let Some(process) = lock(&PROCESS).take() else { return Ok(()) };
        // Another thread in the middle of a call keeps it, and is the last to let go.
        if let Some(process) = Arc::into_inner(process) {
            // The process may end next, and the others are not to wait for it.
            if let Some(group) = process.group.into_inner().unwrap_or_else(PoisonError::into_inner) {
                group.leave();
            }
            // It ended before; that is what was asked for.
            let _ = process.member.shutdown();
        }
        Ok(())
    })
}

/// A text of the caller.
///
/// # Safety
/// `text` is null, or ends with a NUL and stays for as long as the result is used.
pub unsafe fn text<'a>(text: *const c_char, what: &str) -> Outcome<&'a str> {
    if text.is_null() {
        return Err(Failure::argument(format!("{what} is a null pointer")));
    }
    // SAFETY: not null, so it ends with a NUL.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Failure::argument(format!("{what} is not UTF-8")))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change is a single statement.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

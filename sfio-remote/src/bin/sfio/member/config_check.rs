//! `sfio member --check-config`: whether a member could run with a config file, without running it.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;

use program::output::Results;
use serde_json::{Value, json};
use sfio_remote::io::DiskStore;
use sfio_remote::io::membership::Membership;

use crate::exit::{Exit, Failure, OrFail as _};

/// The longest path of a Unix socket, in bytes: what `sockaddr_un` has room for, less its end.
const LONGEST_SOCKET_PATH: usize = 107;

/// Checks what [`Membership::load`] does not look at, and prints what the member would be.
///
/// # Errors
/// If the member could not run with it.
pub(super) fn run(config: &Path, membership: &Membership, json: bool) -> Result<(), Failure> {
    check_admin_socket(membership)?;
    check_addresses(membership)?;
    if let Some(export) = &membership.export {
        DiskStore::check(export, &membership.export_identity).or_exit(Exit::Input)?;
    }
    if json { program::line!("{}", described(config, membership)) } else { tell(config, membership) }
}

fn described(config: &Path, membership: &Membership) -> Value {
    let (overlay, export) = (&membership.overlay, membership.export.as_ref());
    json!({
        "config": config.display().to_string(),
        "member": membership.name(),
        "overlay": {
            "file": membership.source.path.display().to_string(),
            "serial": overlay.serial,
            "members": overlay.members().len(),
            "is_signed": membership.source.operator.is_some(),
        },
        "admin": membership.admin.display().to_string(),
        "export": export.map(|export| export.display().to_string()),
    })
}

fn tell(config: &Path, membership: &Membership) -> Result<(), Failure> {
    let overlay = &membership.overlay;
    let mut results = Results::open(None)?;
    results.line(format_args!("{} can be used", config.display()))?;
    let row = |name: &str, text: String| format!("  {name:<9} {text}");
    results.line(row("member", membership.name().to_owned()))?;
    let signed = if membership.source.operator.is_some() { ", signed by the operator" } else { "" };
    let (serial, members) = (overlay.serial, overlay.members().len());
    let text = format!("{}, serial {serial}, {members} members{signed}", membership.source.path.display());
    results.line(row("overlay", text))?;
    results.line(row("admin", membership.admin.display().to_string()))?;
    if let Some(export) = &membership.export {
        results.line(row("export", export.display().to_string()))?;
    }
    results.close()
}

fn check_admin_socket(membership: &Membership) -> Result<(), Failure> {
    let path = &membership.admin;
    let fault = |what: String| Failure::new(Exit::Input, format!("admin socket {}: {what}", path.display()));
    let length = path.as_os_str().len();
    if length > LONGEST_SOCKET_PATH {
        return Err(fault(format!("its path has {length} bytes; expected at most {LONGEST_SOCKET_PATH}")));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if folder.is_dir() { Ok(()) } else { Err(fault(format!("{} is no folder", folder.display()))) }
}

/// The member's addresses in the overlay must be this machine's. Ports are not tried: the member may be running.
fn check_addresses(membership: &Membership) -> Result<(), Failure> {
    let member = membership.overlay.member(membership.member);
    let named = [("control", member.control), ("data", member.data)];
    for (name, address) in named.into_iter().filter_map(|(name, address)| Some((name, address?))) {
        let tried = UdpSocket::bind(SocketAddr::new(address.ip(), 0));
        let place = format!("{name} address {address} of {}: it is not one of this machine", member.name);
        tried.or_fail(Exit::Input, place)?;
    }
    Ok(())
}

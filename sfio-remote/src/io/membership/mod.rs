//! A member's config file: which overlay, which member, which key, what to serve.
//!
//! ```toml
//! overlay = "../overlay.toml"
//! member = "io1"
//! key = "key"
//! export = "export"        # only for an I/O node: the folder beneath which it serves subfiles
//! operator = "base64…"     # whose signature the overlay file must bear (overlay.toml.sig); without it, nobody's
//! admin = "admin.sock"     # where `sfio status` finds the running member; this is the default
//!
//! export_identity = "export.identity"  # where it is remembered which folder that is; this is the default
//! reclaim_after_seconds = 3600         # for how long readers keep what data sets have dropped; this is the default
//! patience_seconds = 60                # for how long sessions wait in an outage of everything; this is the default
//! uplinks = ["eth0", "192.0.2.9"]      # interfaces or addresses over each of which every neighbour is reached; only
//! for
//!                                      # a member without an address in the overlay file. By default what routes say
//!
//! [access]                 # who may do what there: none, read, append, read-write; other members may do nothing
//! laptop = "read-write"
//! "*" = "read"             # each other member
//! [access.backup]          # beneath folders; of several the innermost decides, and elsewhere there is no right
//! "data/laptop" = "append"
//!
//! [quota]                  # how many bytes the subfiles may have that a member creates; by default as many as fit
//! backup = "200GiB"
//! "*" = "10GiB"            # each other member
//!
//! [limits]                 # bounds on memory and tables: those of fec_transport::config::Limits, which has the
//! defaults sessions = 256 [policing]               # how much others may ask of this member: those of
//! fec_transport::config::Policing set_ups_per_originator = 256 [io_node]                # what all clients of an I/O
//! node share; these are the defaults memory = "64MiB" requests = "16MiB" transfers_per_member = 512 disk_operations =
//! 8
//!
//! [trace]                  # what is done with files is written down there (docs/traces.md); by default it is not
//! file = "trace.jsonl.zst"
//! ```
//!
//! Paths are relative to the config file, so that a folder with everything in it can be moved.

mod limits;
mod toml_file;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fec_transport::config::{Limits, Policing};
use fec_transport::io::EndpointConfig;
use fec_transport::io::files::{Credentials, Credited, FileError, OverlaySource};
use fec_transport::keys::Identity;
use fec_transport::overlay::{MemberId, Overlay};
use serde::Deserialize;

use super::Quotas;
use crate::distribution::StripeUnit;
use crate::io_node::{AccessRules, IoNodeConfig, Right, Rights};
use crate::name::SubfilePath;

pub use limits::MemberLimits;
pub use toml_file::read as read_toml;

/// The admin socket, beside the config file, unless that names another place.
const ADMIN_SOCKET: &str = "admin.sock";
/// The file that remembers the identity of the export root, beside the config file, unless that names another place.
const EXPORT_IDENTITY: &str = "export.identity";

/// Everything that a process needs to be a member.
#[derive(Debug)]
pub struct Membership {
    /// The members, their keys and their links.
    pub overlay: Arc<Overlay>,
    /// The member's key.
    pub identity: Identity,
    /// Which member it is.
    pub member: MemberId,
    /// The folder beneath which it serves subfiles, if any.
    pub export: Option<PathBuf>,
    /// The file in which it is remembered which folder that is.
    pub export_identity: PathBuf,
    /// For how long readers keep what data sets have dropped.
    pub reclaim_after: Duration,
    /// What each member may do with them.
    pub access: AccessRules,
    /// How much each member may fill.
    pub quotas: Quotas,
    /// What all share, and how much of it there is.
    pub limits: MemberLimits,
    /// Where the overlay file is, and whose signature it must bear.
    pub source: OverlaySource,
    /// The admin socket of the running member.
    pub admin: PathBuf,
    /// Where it is written down what is done with files, if it is.
    pub trace: Option<PathBuf>,
}

/// The admin socket of the member whose config file this is.
///
/// # Errors
/// If it is no config file.
pub fn admin_socket(config: &Path) -> Result<PathBuf, FileError> {
    let file: File = toml_file::read("config file", config)?;
    Ok(file.admin_beside(config))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    overlay: PathBuf,
    member: String,
    key: PathBuf,
    export: Option<PathBuf>,
    operator: Option<String>,
    admin: Option<PathBuf>,
    export_identity: Option<PathBuf>,
    reclaim_after_seconds: Option<u64>,
    patience_seconds: Option<u64>,
    uplinks: Option<Vec<String>>,
    access: Option<BTreeMap<String, Access>>,
    #[serde(default)]
    quota: BTreeMap<String, String>,
    #[serde(default)]
    limits: Limits,
    #[serde(default)]
    policing: Policing,
    #[serde(default)]
    io_node: limits::IoNodeTable,
    trace: Option<TraceTable>,
}

/// What is written down.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TraceTable {
    file: PathBuf,
}

/// The rights of a member as the file has them.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected \"none\", \"read\", \"append\" or \"read-write\", or a table with one of them for each folder"
)]
enum Access {
    Everywhere(Word),
    Beneath(BTreeMap<String, Word>),
}

/// A right as the file has it.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Word {
    None,
    Read,
    Append,
    ReadWrite,
}

impl Word {
    fn right(self) -> Right {
        match self {
            Word::None => Right::None,
            Word::Read => Right::Read,
            Word::Append => Right::Append,
            Word::ReadWrite => Right::ReadWrite,
        }
    }
}

impl Access {
    fn rights(&self) -> Result<Rights, String> {
        match self {
            Access::Everywhere(word) => Ok(Rights::everywhere(word.right())),
            Access::Beneath(folders) => {
                folders.iter().try_fold(Rights::default(), |rights, (folder, word)| {
                    let path = SubfilePath::new(folder).map_err(|error| format!("\"{folder}\": {error}"))?;
                    Ok(rights.beneath(path, word.right()))
                })
            }
        }
    }
}

impl File {
    fn admin_beside(&self, config: &Path) -> PathBuf {
        let folder = config.parent().unwrap_or(Path::new(""));
        folder.join(self.admin.as_deref().unwrap_or(Path::new(ADMIN_SOCKET)))
    }
}

impl Membership {
    /// Reads a config file and the files that it names, and checks that they fit together.
    pub fn load(path: &Path) -> Result<Membership, FileError> {
        let file: File = toml_file::read("config file", path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let fault = |message| FileError::new(format!("config file {}: {message}", path.display()));
        let admin = file.admin_beside(path);
        let credentials = Credentials {
            config: path,
            overlay: &file.overlay,
            member: &file.member,
            key: &file.key,
            operator: file.operator.as_deref(),
            uplinks: file.uplinks.as_deref(),
        };
        let Credited { overlay, member, identity, source } = credentials.read()?;
        let export = file.export.map(|export| folder.join(export));
        if export.is_some() && file.access.is_none() {
            return Err(fault(access_is_missing(&overlay, member)));
        }
        let access = access_rules(file.access.iter().flatten(), &overlay).map_err(fault)?;
        let quotas = quotas(&file.quota, &overlay).map_err(fault)?;
        let limits =
            limits::check(file.limits, file.policing, file.io_node, file.patience_seconds).map_err(fault)?;
        let export_identity = file.export_identity.as_deref().unwrap_or(Path::new(EXPORT_IDENTITY));
        let reclaim_after = file.reclaim_after_seconds.map(Duration::from_secs);
        Ok(Membership {
            overlay: Arc::new(overlay),
            identity,
            member,
            export,
            export_identity: folder.join(export_identity),
            reclaim_after: reclaim_after.unwrap_or(IoNodeConfig::default().reclaim_after),
            access,
            quotas,
            limits,
            source,
            admin,
            trace: file.trace.map(|trace| folder.join(trace.file)),
        })
    }

    /// What an endpoint of this member is made of.
    pub fn endpoint(&self) -> EndpointConfig {
        let endpoint = EndpointConfig::new(Arc::clone(&self.overlay), self.identity.clone());
        EndpointConfig { config: self.limits.endpoint(), ..endpoint }
    }

    /// Has sessions wait no longer than that in an outage, or no longer than until a peer counts as out of reach, if
    /// that is more; nor does opening one take longer.
    pub fn limit_patience(&mut self, limit: Duration) {
        self.limits.limit_patience(limit);
    }

    /// The limits of its I/O node.
    pub fn io_node(&self) -> IoNodeConfig {
        let (access, reclaim_after) = (self.access.clone(), self.reclaim_after);
        IoNodeConfig { access, reclaim_after, ..self.limits.io_node.clone() }
    }

    /// The member's name.
    pub fn name(&self) -> &str {
        &self.overlay.member(self.member).name
    }
}

/// What to add to a config that serves subfiles and does not say to whom.
fn access_is_missing(overlay: &Overlay, serving: MemberId) -> String {
    let own = &overlay.member(serving).name;
    let other = overlay.members().iter().map(|member| &member.name).find(|name| *name != own).unwrap_or(own);
    format!(
        "it exports a folder, and nothing says who may use it; add these two lines, one for each member that may: \
         [access] and {other} = \"read-write\" (or \"append\", \"read\"; \"*\" stands for each member that is not named)"
    )
}

/// The rights of the members; `*` stands for all that are not named.
fn access_rules<'a>(
    entries: impl Iterator<Item = (&'a String, &'a Access)>,
    overlay: &Overlay,
) -> Result<AccessRules, String> {
    let mut rules = AccessRules::default();
    for (name, access) in entries {
        let rights = access.rights().map_err(|fault| format!("access of {name}: {fault}"))?;
        rules = match name.as_str() {
            "*" => rules.with_others(rights),
            name if overlay.find(name).is_some() => rules.with(name, rights),
            name => return Err(format!("access: the overlay has no member \"{name}\"")),
        }
    }
    Ok(rules)
}

/// The quotas of the members; `*` stands for each that is not named.
fn quotas(entries: &BTreeMap<String, String>, overlay: &Overlay) -> Result<Quotas, String> {
    let mut quotas = Quotas::default();
    for (name, size) in entries {
        // Both are sizes from one byte up, written the same way.
        let bytes = size.parse::<StripeUnit>().map(StripeUnit::bytes).map_err(|_| {
            format!(
                "quota: {name} = \"{size}\" is no size; expected bytes, as 1000000, or with a unit, as 200GiB"
            )
        })?;
        match name.as_str() {
            "*" => quotas.others = Some(bytes),
            name if overlay.find(name).is_some() => drop(quotas.members.insert(name.to_owned(), bytes)),
            name => return Err(format!("quota: the overlay has no member \"{name}\"")),
        }
    }
    Ok(quotas)
}

#[cfg(test)]
mod tests {
    use std::fs::write;

    use fec_transport::io::files::{key_file, signature_file};
    use fec_transport::keys::encode_key;
    use fec_transport::overlay::OperatorKey;

    use super::*;

    /// A folder with an overlay of one member, its key and its config.
    fn scene() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let keys = key_file::create(&folder.path().join("key")).expect("a new key").public();
        let (ed25519, x25519) = (encode_key(&keys.ed25519), encode_key(&keys.x25519));
        let overlay = format!("[[member]]\nname = \"io1\"\ned25519 = \"{ed25519}\"\nx25519 = \"{x25519}\"\n");
        write(folder.path().join("overlay.toml"), overlay).expect("it can be written");
        configure(&folder, "");
        folder
    }

    fn configure(folder: &tempfile::TempDir, more: &str) {
        let text = format!("overlay = \"overlay.toml\"\nmember = \"io1\"\nkey = \"key\"\n{more}");
        write(folder.path().join("config.toml"), text).expect("it can be written");
    }

    fn load(folder: &tempfile::TempDir) -> Result<Membership, String> {
        Membership::load(&folder.path().join("config.toml")).map_err(|failure| failure.to_string())
    }

    #[test]
    fn paths_are_relative_to_the_config_file() {
        let folder = scene();
        configure(&folder, "export = \"data\"\n[access]\n");
        let membership = load(&folder).expect("all of it fits");
        assert_eq!(membership.name(), "io1");
        assert_eq!(membership.export, Some(folder.path().join("data")));
        assert_eq!(membership.export_identity, folder.path().join("export.identity"));
    }

    #[test]
    fn who_may_use_an_exported_folder_must_be_said() {
        let folder = scene();
        configure(&folder, "export = \"data\"\n");
        let complaint = load(&folder).unwrap_err();
        assert!(complaint.contains("add these two lines") && complaint.contains("[access]"), "{complaint}");
        configure(
            &folder,
            "export = \"data\"\n[access]\n\"*\" = \"append\"\n[access.io1]\n\"a/b\" = \"read-write\"\n",
        );
        let access = load(&folder).expect("all of it fits").access;
        let right = |member, path: &str| access.right(member, &SubfilePath::new(path).expect("a right path"));
        assert_eq!((right("io1", "a/b/c"), right("io1", "a")), (Right::ReadWrite, Right::None));
        assert_eq!(right("io2", "a"), Right::Append);
        configure(&folder, "export = \"data\"\n[access]\nio1 = \"read-only\"\n");
        let complaint = load(&folder).unwrap_err();
        assert!(complaint.contains("line 6: expected \"none\", \"read\""), "{complaint}");
        configure(&folder, "export = \"data\"\n[access.io1]\n\"..\" = \"read\"\n");
        assert!(load(&folder).unwrap_err().contains("access of io1: \"..\": the path has"));
        configure(&folder, "export = \"data\"\n[access]\nio9 = \"read\"\n");
        assert!(load(&folder).unwrap_err().contains("access: the overlay has no member \"io9\""));
    }

    #[test]
    fn where_an_operator_is_named_the_overlay_file_must_bear_its_signature() {
        let folder = scene();
        let operator = Identity::from_seed([7; 32]);
        let overlay = folder.path().join("overlay.toml");
        let text = std::fs::read(&overlay).expect("it is there");
        configure(&folder, &format!("operator = \"{}\"\n", OperatorKey::of(&operator).to_text()));
        assert!(load(&folder).unwrap_err().contains("overlay.toml.sig: No such file"));
        let sign = |text: &[u8]| {
            let signature = fec_transport::overlay::sign(&operator, text);
            write(signature_file(&overlay), signature).expect("it can be written");
        };
        sign(b"another file");
        assert!(load(&folder).unwrap_err().contains("is not the signature of operator"));
        sign(&text);
        load(&folder).expect("signed by the operator");
        write(&overlay, [&text[..], b"\n"].concat()).expect("it can be written");
        assert!(load(&folder).is_err(), "one byte more is another file");
    }

    #[test]
    fn quotas_are_sizes_of_members() {
        let folder = scene();
        configure(&folder, "[quota]\nio1 = \"200GiB\"\n\"*\" = \"1000\"\n");
        let quotas = load(&folder).expect("all of it fits").quotas;
        assert_eq!((quotas.members["io1"], quotas.others), (200 << 30, Some(1_000)));
        configure(&folder, "[quota]\nio1 = \"much\"\n");
        assert!(load(&folder).unwrap_err().contains("quota: io1 = \"much\" is no size"));
        configure(&folder, "[quota]\nio9 = \"1\"\n");
        assert!(load(&folder).unwrap_err().contains("quota: the overlay has no member \"io9\""));
    }

    #[test]
    fn uplinks_are_named_in_the_config_and_must_fit_to_the_overlay_file() {
        let folder = scene();
        let far = Identity::from_seed([8; 32]).public();
        let link = format!(
            "[[member]]\nname = \"far\"\ned25519 = \"{}\"\nx25519 = \"{}\"\ncontrol = \"127.0.0.1:1\"\n\
             data = \"127.0.0.1:2\"\n[[link]]\na = \"io1\"\nb = \"far\"\n",
            encode_key(&far.ed25519),
            encode_key(&far.x25519)
        );
        configure(&folder, "uplinks = [\"127.0.0.2\", \"lo\"]\n");
        let complaint = load(&folder).unwrap_err();
        assert!(complaint.contains("overlay.toml") && complaint.contains("leaves open"), "{complaint}");
        let overlay = folder.path().join("overlay.toml");
        let text = std::fs::read_to_string(&overlay).expect("it is there") + &link;
        write(&overlay, text).expect("it can be written");
        let membership = load(&folder).expect("all of it fits");
        let links = membership.overlay.listed_links().map(|(link, _)| membership.overlay.link_title(link));
        assert_eq!(links.collect::<Vec<_>>(), ["io1 – far (@127.0.0.2)", "io1 – far (@lo)"]);
        assert_eq!(membership.source.read().expect("as before"), *membership.overlay);
        for (uplinks, complaint) in [
            ("[\"lo\", \"lo\"]", "\"lo\" is listed twice"),
            ("[\"127.0.0.2:7\"]", "config.toml: uplinks: \"127.0.0.2:7\" is no uplink; expected the name"),
            (
                "[\"::1\"]",
                "from \"::1\" no neighbour can be reached: their addresses (127.0.0.1) are of another",
            ),
            ("[]", "0 are listed; expected 1 to 8"),
        ] {
            configure(&folder, &format!("uplinks = {uplinks}\n"));
            let told = load(&folder).unwrap_err();
            assert!(told.contains(complaint), "{told}");
        }
    }

    #[test]
    fn limits_are_read_checked_and_named() {
        let folder = scene();
        let defaults = load(&folder).expect("all of it fits").limits;
        assert_eq!(defaults.policing.set_ups_per_originator, Some(256.0), "without a word it protects");
        configure(
            &folder,
            "[limits]\nsessions = 16\n[policing]\nset_ups_per_originator = 5\n[io_node]\nmemory = \"8MiB\"\n",
        );
        let membership = load(&folder).expect("all of it fits");
        let config = membership.endpoint().config;
        assert_eq!((config.limits.sessions, config.limits.streams), (16, 128));
        assert_eq!(config.policing.set_ups_per_originator, Some(5.0));
        assert_eq!((membership.io_node().memory_bytes, membership.io_node().disk_operations), (8 << 20, 8));
        for (more, complaint) in [
            ("[limits]\nsession = 16\n", "unknown field `session`"),
            ("[limits]\nsessions = 0\n", "config.toml: limits.sessions is 0; expected 1 to "),
            (
                "[policing]\nset_ups_per_neighbour = -1.0\n",
                "set_ups_per_neighbour is -1; expected a number above 0",
            ),
            ("[limits]\nstreams = \"many\"\n", "line 5: invalid type: string \"many\", expected u32"),
            ("[io_node]\nmemory = \"1KiB\"\n", "io_node.memory is 1024; expected 4194304 to 1099511627776"),
            ("[io_node]\nmemory = \"much\"\n", "\"much\" is no size; expected bytes"),
            ("[io_node]\ndisk_operations = 0\n", "io_node.disk_operations is 0; expected 1 to 256"),
        ] {
            configure(&folder, more);
            let told = load(&folder).unwrap_err();
            assert!(told.contains(complaint), "{told}");
        }
    }

    #[test]
    fn each_fault_is_named_with_its_file() {
        let folder = scene();
        configure(&folder, "exports = \"data\"\n");
        assert!(load(&folder).unwrap_err().contains("config.toml, line 4: unknown field `exports`"));

        let folder = scene();
        let text = "overlay = \"overlay.toml\"\nmember = \"io9\"\nkey = \"key\"\n";
        write(folder.path().join("config.toml"), text).expect("it can be written");
        assert!(load(&folder).unwrap_err().contains("no member \"io9\" (members: io1)"));

        let folder = scene();
        std::fs::remove_file(folder.path().join("key")).expect("it is there");
        assert!(load(&folder).unwrap_err().contains("key: No such file"));
        key_file::create(&folder.path().join("key")).expect("a new key");
        assert!(load(&folder).unwrap_err().contains("is not the key of member \"io1\": its ed25519 is"));

        let folder = scene();
        write(folder.path().join("overlay.toml"), "serial = 1\n[[member]\n").expect("it can be written");
        assert!(load(&folder).unwrap_err().contains("overlay.toml: line 2: "), "{:?}", load(&folder));
    }
}

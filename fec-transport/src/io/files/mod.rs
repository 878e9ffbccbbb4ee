//! The files that make a process a member: the overlay, its signature, and the member's key.

mod error;
pub mod key_file;
mod overlay_file;

use std::path::{Path, PathBuf};

use crate::keys::{Identity, PublicKeys, encode_key};
use crate::overlay::{MemberId, OperatorKey, Overlay, Uplink};

pub use error::{About, FileError};
pub use overlay_file::{OverlaySource, read_overlay, signature_file};

/// What a config file says of the member that a process is. Paths are relative to the config file.
#[derive(Debug)]
pub struct Credentials<'a> {
    /// The config file.
    pub config: &'a Path,
    /// The overlay file.
    pub overlay: &'a Path,
    /// The member's name.
    pub member: &'a str,
    /// The key file.
    pub key: &'a Path,
    /// Whose signature the overlay file must bear, in base64; none if any file will do.
    pub operator: Option<&'a str>,
    /// Over which uplinks the member uses those of its links of which the file does not say it; none for whichever
    /// routes say.
    pub uplinks: Option<&'a [String]>,
}

/// The member that a process is, and where that comes from.
#[derive(Debug)]
pub struct Credited {
    /// The members, their keys and their links.
    pub overlay: Overlay,
    /// Which member it is.
    pub member: MemberId,
    /// The member's key.
    pub identity: Identity,
    /// Where the overlay file is, and whose signature it must bear.
    pub source: OverlaySource,
}

impl Credentials<'_> {
    /// Reads the files and checks that they fit together.
    ///
    /// # Errors
    /// If one of them cannot be read or is not what it should be, or if the key is not that of the member.
    pub fn read(&self) -> Result<Credited, FileError> {
        let config = self.config.display();
        let operator = self.operator.map(OperatorKey::from_text).transpose();
        let operator = operator.about(format!("config file {config}: operator"))?;
        let uplinks = self.uplinks.map(uplinks).transpose();
        let uplinks = uplinks.map_err(|fault| FileError::new(format!("config file {config}: {fault}")))?;
        let source = OverlaySource {
            path: self.beside_config(self.overlay),
            operator,
            member: self.member.to_owned(),
            uplinks,
        };
        let overlay = source.read()?;
        let member = overlay.find(self.member).ok_or_else(|| {
            let names: Vec<&str> = overlay.listed_members().map(|(_, member)| member.name.as_str()).collect();
            let (listed, names) = (source.path.display(), names.join(", "));
            FileError::new(format!(
                "config file {config}: {listed} has no member \"{}\" (members: {names})",
                self.member
            ))
        })?;
        let key = self.beside_config(self.key);
        let identity = key_file::read(&key)?;
        let expected = overlay.member(member).keys;
        if identity.public() != expected {
            return Err(self.wrong_key(&key, &source.path, identity.public(), expected));
        }
        Ok(Credited { overlay, member, identity, source })
    }

    fn beside_config(&self, path: &Path) -> PathBuf {
        self.config.parent().unwrap_or(Path::new("")).join(path)
    }

    fn wrong_key(&self, key: &Path, overlay: &Path, found: PublicKeys, expected: PublicKeys) -> FileError {
        let (what, found, expected) = if found.ed25519 == expected.ed25519 {
            ("x25519", found.x25519, expected.x25519)
        } else {
            ("ed25519", found.ed25519, expected.ed25519)
        };
        let (key, member, overlay) = (key.display(), self.member, overlay.display());
        let (found, expected) = (encode_key(&found), encode_key(&expected));
        FileError::new(format!(
            "key file {key} is not the key of member \"{member}\": its {what} is {found}, {overlay} lists {expected}"
        ))
    }
}

/// The uplinks that a config names.
fn uplinks(names: &[String]) -> Result<Vec<Uplink>, String> {
    let uplink = |name: &String| {
        let expected = "expected the name of an interface, as \"eth0\", or an IP address, as \"192.0.2.9\"";
        Uplink::parse(name).ok_or_else(|| format!("uplinks: \"{name}\" is no uplink; {expected}"))
    };
    names.iter().map(uplink).collect()
}

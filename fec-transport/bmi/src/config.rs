//! The file that `BMI_CONFIG` names: which member of which overlay the process is.

use std::path::Path;
use std::sync::Arc;
use std::{fmt, fs};

use fec_transport::io::files::{About as _, Credentials, Credited};
use fec_transport::keys::Identity;
use fec_transport::overlay::Overlay;
use toml::Table;

use crate::error::{Code, Failure, Outcome};

/// The environment variable that names the file.
const VARIABLE: &str = "BMI_CONFIG";

/// A member of an overlay.
pub struct Membership {
    pub overlay: Arc<Overlay>,
    pub identity: Identity,
    pub member: String,
}

impl Membership {
    /// Reads the file, if there is to be one.
    pub fn load() -> Outcome<Option<Membership>> {
        std::env::var_os(VARIABLE).map(|path| Membership::read(Path::new(&path))).transpose()
    }

    /// Whether an address to listen at is that of this member.
    pub fn check_name(&self, name: &str) -> Outcome<()> {
        match name == self.member {
            true => Ok(()),
            false => {
                let words = format!("\"{name}\" is not the member \"{}\" of the config file", self.member);
                Err(Failure::argument(words))
            }
        }
    }

    /// What a network says that needs it and does not have it.
    pub fn missing(network: &str) -> Failure {
        let words = format!("{network}:// needs the config file of a member, which {VARIABLE} names");
        Failure::new(Code::EDEVINIT, words)
    }

    /// A member's config file has more than is looked at here: what its I/O node serves, for instance.
    fn read(path: &Path) -> Outcome<Membership> {
        let place = format!("config file {}", path.display());
        let text = fs::read_to_string(path).about(&place).map_err(refused)?;
        let file: Table = text.parse().about(&place).map_err(refused)?;
        let field = |name| {
            let value = file.get(name).and_then(|value| value.as_str());
            value.ok_or_else(|| refused(format!("{place}: `{name}` is missing, or no text")))
        };
        let operator = file.contains_key("operator").then(|| field("operator")).transpose()?;
        let (overlay, key, member) =
            (Path::new(field("overlay")?), Path::new(field("key")?), field("member")?);
        let uplinks = file.get("uplinks").map(|uplinks| uplinks.clone().try_into::<Vec<String>>());
        let uplinks = uplinks.transpose().about(format!("{place}: uplinks")).map_err(refused)?;
        let uplinks = uplinks.as_deref();
        let credentials = Credentials { config: path, overlay, member, key, operator, uplinks };
        let Credited { overlay, identity, .. } = credentials.read().map_err(refused)?;
        Ok(Membership { overlay: Arc::new(overlay), identity, member: member.to_owned() })
    }
}

fn refused(reason: impl fmt::Display) -> Failure {
    Failure::new(Code::EDEVINIT, reason.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fec_transport::keys::encode_key;
    use fec_transport::overlay::{OperatorKey, sign};
    use std::os::unix::fs::PermissionsExt as _;

    /// A folder with the files of the member "me".
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let identity = Identity::from_seed([7; 32]);
        let keys = identity.public();
        let overlay = format!(
            "[[member]]\nname = \"me\"\ned25519 = \"{}\"\nx25519 = \"{}\"\n",
            encode_key(&keys.ed25519),
            encode_key(&keys.x25519)
        );
        write(&folder, "overlay.toml", &overlay);
        write(&folder, "key", &identity.to_text());
        fs::set_permissions(folder.path().join("key"), fs::Permissions::from_mode(0o600)).expect("possible");
        folder
    }

    fn write(folder: &tempfile::TempDir, name: &str, text: &str) {
        fs::write(folder.path().join(name), text).expect("possible");
    }

    fn read(folder: &tempfile::TempDir, config: &str) -> Result<String, String> {
        write(folder, "config.toml", config);
        let membership = Membership::read(&folder.path().join("config.toml"));
        membership.map(|membership| membership.member).map_err(|failure| failure.words().to_owned())
    }

    const CONFIG: &str = "overlay = \"overlay.toml\"\nmember = \"me\"\nkey = \"key\"\nexport = \"export\"\n";

    #[test]
    fn a_members_config_file_is_enough_and_what_is_wrong_with_it_is_told() {
        let folder = folder();
        assert_eq!(read(&folder, CONFIG), Ok("me".to_owned()));
        let told = |config: &str, words: &str| {
            let error = read(&folder, config).expect_err("it is refused");
            assert!(error.contains(words), "{error}");
        };
        told(&CONFIG.replace("\"me\"", "\"you\""), "no member \"you\"");
        told(&CONFIG.replace("\"me\"", "7"), "`member` is missing");
        told(&CONFIG.replace("\"key\"", "\"none\""), "none: No such file");
        fs::set_permissions(folder.path().join("key"), fs::Permissions::from_mode(0o640)).expect("possible");
        told(CONFIG, "0640");
    }

    #[test]
    fn where_an_operator_is_named_the_overlay_bears_its_signature() {
        let folder = folder();
        let operator = Identity::from_seed([8; 32]);
        let config = format!("operator = \"{}\"\n{CONFIG}", OperatorKey::of(&operator).to_text());
        let error = read(&folder, &config).expect_err("there is no signature");
        assert!(error.contains("overlay.toml.sig"), "{error}");
        let overlay = fs::read(folder.path().join("overlay.toml")).expect("it was written");
        write(&folder, "overlay.toml.sig", &sign(&operator, &overlay));
        assert_eq!(read(&folder, &config), Ok("me".to_owned()));
        write(&folder, "overlay.toml.sig", &sign(&Identity::from_seed([9; 32]), &overlay));
        read(&folder, &config).expect_err("it is somebody else's");
    }
}

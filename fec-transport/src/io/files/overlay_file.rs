//! Overlay files, and the signatures beside them.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::{About as _, FileError};
use crate::overlay::{OperatorKey, Overlay, Uplink};

/// Where a member's overlay comes from: the file, and what its config adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverlaySource {
    /// The file.
    pub path: PathBuf,
    /// Whose signature it must bear, in a file of the same name with `.sig` behind; none if any file will do.
    pub operator: Option<OperatorKey>,
    /// The member's name.
    pub member: String,
    /// Over which uplinks it uses those of its links of which the file does not say it; none for whichever routes say.
    pub uplinks: Option<Vec<Uplink>>,
}

impl OverlaySource {
    /// Reads the file as it is now and checks the signature.
    ///
    /// # Errors
    /// If it cannot be read, is not the operator's, is no overlay file, or the member's uplinks do not fit to it.
    pub fn read(&self) -> Result<Overlay, FileError> {
        let place = format!("overlay file {}", self.path.display());
        let text = fs::read_to_string(&self.path).about(&place)?;
        if let Some(operator) = self.operator {
            let file = signature_file(&self.path);
            let place = format!("signature {}", file.display());
            let signature = fs::read_to_string(&file).about(&place)?;
            operator.check(text.as_bytes(), &signature).about(place)?;
        }
        let overlay = Overlay::parse(&text).about(place)?;
        match (&self.uplinks, overlay.find(&self.member)) {
            (Some(uplinks), Some(member)) => {
                let place = format!("the config's uplinks and overlay file {}", self.path.display());
                overlay.over_uplinks(member, uplinks).about(place)
            }
            _ => Ok(overlay),
        }
    }
}

/// Where the signature of an overlay file is.
#[must_use]
pub fn signature_file(overlay: &Path) -> PathBuf {
    let mut name = overlay.as_os_str().to_owned();
    name.push(".sig");
    PathBuf::from(name)
}

/// Reads an overlay file, whoever has signed it.
///
/// # Errors
/// If it cannot be read, or is no overlay file.
pub fn read_overlay(path: &Path) -> Result<Overlay, FileError> {
    let place = format!("overlay file {}", path.display());
    let text = fs::read_to_string(path).about(&place)?;
    Overlay::parse(&text).about(place)
}

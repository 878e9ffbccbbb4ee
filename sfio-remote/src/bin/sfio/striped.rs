//! What users call a striped file: by its subfiles, or by a site and a path.

use std::fmt;
use std::str::FromStr;

use sfio_remote::compression::Compression;
use sfio_remote::distribution::StripeUnit;
use sfio_remote::name::{FileName, NameError, SubfileName, SubfilePath};

use crate::client::Session;
use crate::dataset::find_site;
use crate::exit::{Exit, Failure, OrFail as _};

/// A striped file as it was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StripedName {
    /// Its subfiles, "member,path;member,path;…".
    Subfiles(FileName),
    /// The same path on all I/O nodes of a site, SITE:PATH.
    OnSite {
        /// The site's name.
        site: String,
        /// The path of each subfile.
        path: SubfilePath,
    },
}

/// The stripe unit of a file.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Striping {
    /// Bytes per stripe, as 200 or 64KiB; without it that of the site, or 64KiB
    ///
    /// Any size from 1 byte up. A file must be read with the unit that it was written with. The checksums that put
    /// stores beside it know that one; of a file that was changed since nobody knows it, and another one gives the
    /// right bytes in the wrong order.
    #[arg(long, value_name = "SIZE")]
    stripe_unit: Option<StripeUnit>,
}

/// How the bytes of a file are compressed on their way.
#[derive(Debug, clap::Args)]
pub(crate) struct Compressing {
    /// How to compress on the way through the network: auto, never, lz4, zstd, or zstd:LEVEL with a level of -7 to 19
    ///
    /// auto compresses where that makes the bytes arrive sooner, and by what does so most. On the disks of the I/O
    /// nodes the bytes are as they are.
    #[arg(long, value_name = "HOW", default_value_t)]
    compress: Compression,
}

impl Compressing {
    pub(crate) fn how(&self) -> Compression {
        self.compress
    }
}

/// A striped file as I/O nodes know it.
#[derive(Debug, Clone)]
pub(crate) struct Striped {
    pub(crate) name: FileName,
    pub(crate) unit: StripeUnit,
}

impl StripedName {
    /// The file's subfiles in the overlay, and its stripe unit.
    ///
    /// # Errors
    /// If there is no such site.
    pub(crate) fn resolve(&self, session: &Session, striping: &Striping) -> Result<Striped, Failure> {
        let (name, unit) = match self {
            StripedName::Subfiles(name) => (name.clone(), StripeUnit::DEFAULT),
            StripedName::OnSite { site, path } => {
                let site = find_site(site, session, "")?;
                let subfile = |member: &String| SubfileName::new(member, path.as_str());
                let subfiles = site.io_nodes.iter().map(subfile).collect::<Result<_, _>>();
                let name = FileName::new(subfiles.or_fail(Exit::Usage, self)?).or_fail(Exit::Usage, self)?;
                (name, site.stripe_unit)
            }
        };
        Ok(Striped { name, unit: striping.stripe_unit.unwrap_or(unit) })
    }
}

impl FromStr for StripedName {
    type Err = String;

    fn from_str(text: &str) -> Result<StripedName, String> {
        let error = match text.parse() {
            Ok(name) => return Ok(StripedName::Subfiles(name)),
            Err(error) => error,
        };
        match text.split_once(':') {
            Some((site, path)) if matches!(error, NameError::NoComma { .. }) && !site.is_empty() => {
                let path = SubfilePath::new(path).map_err(|error| format!("\"{text}\": {error}"))?;
                Ok(StripedName::OnSite { site: site.to_owned(), path })
            }
            _ => Err(format!("{error}, or SITE:PATH")),
        }
    }
}

impl fmt::Display for StripedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StripedName::Subfiles(name) => name.fmt(f),
            StripedName::OnSite { site, path } => write!(f, "{site}:{path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_subfiles_or_a_site() {
        let on_site = |text: &str| match text.parse() {
            Ok(StripedName::OnSite { site, path }) => format!("{path} on {site}"),
            Ok(StripedName::Subfiles(name)) => name.to_string(),
            Err(error) => error,
        };
        assert_eq!(on_site("local:/a/b"), "a/b on local");
        assert_eq!(on_site("io1,a:b"), "io1,a:b;");
        assert!(on_site("notes").ends_with("expected \"member,path\", or SITE:PATH"));
        assert!(on_site("local:..").contains("must stay beneath"));
        assert!(on_site(":a").contains("SITE:PATH"));
    }
}

//! What users call a data set: `SITE:NAME`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use sfio_remote::io::replication::Site;
use sfio_remote::name::SubfilePath;
use sfio_remote::replication::TreePath;

use crate::client::Session;
use crate::exit::{Exit, Failure, OrFail as _};

/// The name of a data set on a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    site: String,
    dataset: SubfilePath,
}

/// A site, or a folder of it in which data sets may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scope {
    site: String,
    folder: SubfilePath,
}

/// A tree: on this machine, or a data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Local(PathBuf),
    Remote(Address),
}

impl Address {
    pub(super) fn dataset(&self) -> &SubfilePath {
        &self.dataset
    }

    /// What it may mean where something is fetched: the data set of that name, or else one of a shorter name, and a
    /// path in it.
    pub(super) fn meanings(&self) -> impl Iterator<Item = (Address, Option<TreePath>)> + '_ {
        let name = self.dataset.as_str();
        let shorter = name.rmatch_indices('/').filter_map(|(slash, _)| {
            let dataset = SubfilePath::new(&name[..slash]).ok()?;
            let path = TreePath::new(name.as_bytes()[slash + 1..].to_vec())?;
            Some((Address { dataset, ..self.clone() }, Some(path)))
        });
        std::iter::once((self.clone(), None)).chain(shorter)
    }

    /// The site of that name in the overlay.
    pub(super) fn site(&self, session: &Session) -> Result<Site, Failure> {
        find_site(&self.site, session, "; a local path with a colon needs ./ before it")
    }
}

impl Scope {
    /// The site of that name in the overlay.
    pub(super) fn site(&self, session: &Session) -> Result<Site, Failure> {
        find_site(&self.site, session, "")
    }

    /// The folder in which data sets are looked for.
    pub(super) fn folder(&self) -> &SubfilePath {
        &self.folder
    }

    /// A data set of the site.
    pub(super) fn address(&self, dataset: SubfilePath) -> Address {
        Address { site: self.site.clone(), dataset }
    }
}

/// The site of that name in the overlay; if there is none, `hint` says what else may be wrong.
pub(crate) fn find_site(name: &str, session: &Session, hint: &str) -> Result<Site, Failure> {
    let overlay = session.overlay();
    let Some(site) = overlay.sites().iter().find(|site| site.name == name) else {
        let known: Vec<&str> = overlay.sites().iter().map(|site| site.name.as_str()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let message = format!("the overlay file has no site \"{name}\" (sites: {known}){hint}");
        return Err(Failure::new(Exit::Input, message));
    };
    let stripe_unit = site.stripe_unit.as_deref().map(str::parse).transpose();
    let stripe_unit = stripe_unit.or_fail(Exit::Input, format!("site \"{name}\" of the overlay file"))?;
    let io_nodes = site.io_nodes.iter().map(|member| overlay.name(*member)).collect();
    Ok(Site { name: name.to_owned(), io_nodes, stripe_unit: stripe_unit.unwrap_or_default() })
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let expected = || format!("\"{text}\" is no data set; expected SITE:NAME, as \"local:photos\"");
        let (site, dataset) = text.split_once(':').ok_or_else(expected)?;
        if site.is_empty() || site.contains('/') || dataset.is_empty() {
            return Err(expected());
        }
        let dataset = SubfilePath::new(dataset).map_err(|error| format!("\"{text}\": {error}"))?;
        Ok(Address { site: site.to_owned(), dataset })
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Scope, String> {
        let (site, folder) = text.split_once(':').unwrap_or((text, ""));
        if site.is_empty() || site.contains('/') {
            return Err(format!("\"{text}\" is no site; expected SITE or SITE:FOLDER, as \"local:photos\""));
        }
        let folder = match folder.trim_matches('/') {
            "" => SubfilePath::root(),
            folder => SubfilePath::new(folder).map_err(|error| format!("\"{text}\": {error}"))?,
        };
        Ok(Scope { site: site.to_owned(), folder })
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.folder.is_root() {
            true => f.write_str(&self.site),
            false => write!(f, "{}:{}", self.site, self.folder),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.site, self.dataset)
    }
}

impl FromStr for Place {
    type Err = String;

    /// As with rsync: a colon before the first slash makes it remote.
    fn from_str(text: &str) -> Result<Place, String> {
        match text.split('/').next() {
            Some(first) if first.contains(':') => text.parse().map(Place::Remote),
            _ if text.is_empty() => Err("an empty path".to_owned()),
            _ => Ok(Place::Local(text.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_of_a_data_set_comes_first() {
        let address: Address = "local:photos/2026/summer".parse().expect("an address");
        let meanings = address.meanings().map(|(address, path)| {
            (address.to_string(), path.map(|path| path.to_string()).unwrap_or_default())
        });
        let expected = [("photos/2026/summer", ""), ("photos/2026", "summer"), ("photos", "2026/summer")];
        let expected = expected.map(|(dataset, path)| (format!("local:{dataset}"), path.to_owned()));
        assert_eq!(meanings.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_scope_is_a_site_or_a_folder_of_it() {
        let scope = |text: &str| text.parse::<Scope>().map(|scope| scope.to_string());
        assert_eq!(scope("local").as_deref(), Ok("local"));
        assert_eq!(scope("local:/").as_deref(), Ok("local"));
        assert_eq!(scope("local:a//b/").as_deref(), Ok("local:a/b"));
        assert!(scope("").is_err() && scope("a/b").is_err() && scope("local:..").is_err());
    }

    #[test]
    fn a_colon_before_the_first_slash_makes_a_place_remote() {
        let remote = |site: &str, dataset: &str| {
            let dataset = SubfilePath::new(dataset).expect("a path");
            Ok(Place::Remote(Address { site: site.to_owned(), dataset }))
        };
        assert_eq!("local:photos/2026".parse(), remote("local", "photos/2026"));
        assert_eq!("./a:b".parse(), Ok(Place::Local("./a:b".into())));
        assert_eq!("/srv/a:b".parse(), Ok(Place::Local("/srv/a:b".into())));
        assert!("local:".parse::<Place>().is_err());
        assert!("local:../up".parse::<Place>().is_err());
    }
}

//! `sfio stat`: what there is of a striped file.

use sfio_remote::distribution::{Distribution, Structure};
use sfio_remote::io::OpenOptions;
use sfio_remote::name::{FileName, SubfileName};

use program::output::{self, Telling};
use serde_json::json;

use crate::client::{Identification, Session};
use crate::exit::{Exit, Failure, OrFail as _};
use crate::part::not_there;
use crate::striped::{Striped, StripedName, Striping};

/// Show the length of a striped file and the sizes of its subfiles
///
/// Fails with code 5 if subfiles are missing or their sizes do not fit together.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  sfio stat --overlay try \"io1,notes.txt;io2,notes.txt\" --json")]
pub(crate) struct Options {
    /// The striped file: "member,path;member,path;…" in the order of striping, or SITE:PATH
    name: StripedName,

    #[command(flatten)]
    striping: Striping,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    identification: Identification,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    options.identification.work(async |session| stat(session, options).await)
}

async fn stat(session: &Session, options: &Options) -> Result<(), Failure> {
    let Striped { name, unit } = &options.name.resolve(session, &options.striping)?;
    let sizes = session.subfile_sizes(name).await?;
    if sizes.iter().all(Option::is_none) {
        return Err(not_there(session.client(), name, &OpenOptions::new().stripe_unit(*unit)).await);
    }
    let distribution = Distribution::new(*unit, sizes.len()).or_fail(Exit::Usage, name)?;
    let verdict = verdict(name, &sizes, &distribution);
    if options.json {
        let subfiles = name.subfiles().iter().zip(&sizes);
        let subfiles = subfiles.map(|(subfile, size)| json!({ "name": subfile.to_string(), "bytes": size }));
        let subfiles = subfiles.collect::<Vec<_>>();
        let bytes = verdict.as_ref().ok();
        let said =
            output::json(&json!({ "subfiles": subfiles, "bytes": bytes, "stripe_unit_bytes": unit.bytes() }));
        return verdict.and(said);
    }
    let telling = Telling::default();
    for (subfile, size) in name.subfiles().iter().zip(&sizes) {
        let size = size.map_or_else(|| "missing".to_owned(), |size| size.to_string());
        telling.line(format_args!("{size:>15}  {subfile}"));
    }
    let length = verdict?;
    telling.line(format_args!("{length:>15}  in all, with a stripe unit of {unit}"));
    telling.finish()
}

/// The length of the file if it is whole.
fn verdict(name: &FileName, sizes: &[Option<u64>], distribution: &Distribution) -> Result<u64, Failure> {
    let missing: Vec<String> = name
        .subfiles()
        .iter()
        .zip(sizes)
        .filter(|(_, size)| size.is_none())
        .map(|(subfile, _): (&SubfileName, _)| subfile.to_string())
        .collect();
    if !missing.is_empty() {
        let message = format!("the file is incomplete; missing: {}", missing.join("; "));
        return Err(Failure::new(Exit::Integrity, message));
    }
    let sizes: Vec<u64> = sizes.iter().flatten().copied().collect();
    match distribution.structure(&sizes) {
        Structure::Intact { length } => Ok(length),
        Structure::Torn(torn) => {
            let message = format!("the file is torn, or was written with another stripe unit: {torn}");
            Err(Failure::new(Exit::Integrity, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use sfio_remote::distribution::StripeUnit;

    use super::*;

    fn judge(sizes: &[Option<u64>]) -> Result<u64, String> {
        let name = "io1,a;io2,a".parse().expect("a right name");
        let distribution = Distribution::new(StripeUnit::new(5).expect("in range"), 2).expect("two subfiles");
        verdict(&name, sizes, &distribution).map_err(|failure| {
            assert_eq!(failure.exit, Exit::Integrity);
            failure.to_string()
        })
    }

    #[test]
    fn a_file_is_whole_if_its_sizes_fit_together() {
        assert_eq!(judge(&[Some(6), Some(5)]), Ok(11));
        assert!(judge(&[Some(6), Some(2)]).unwrap_err().contains("is torn"));
        assert!(judge(&[Some(6), None]).unwrap_err().ends_with("missing: io2,a"));
    }
}

//! Checksums beside the subfiles of a file: `put` writes them, `get` compares.

use std::sync::Arc;

use bytes::Bytes;
use sfio_remote::client::{OpenMode, OperationError};
use sfio_remote::distribution::Distribution;
use sfio_remote::io::{FileError, OpenOptions, Patience, SfioClient, StripedFile};
use sfio_remote::name::{FileName, SubfileName};
use sfio_remote::sums::{Checking, Summing, Sums, beside};
use tokio::task::JoinSet;

use crate::client::{CALLS, failure};
use crate::exit::{Exit, Failure, OrFail as _};

/// Deals the bytes of a file, which come in order, out to its subfiles.
#[derive(Debug, Clone, Copy)]
struct Dealing {
    distribution: Distribution,
    /// How many bytes were dealt.
    offset: u64,
}

impl Dealing {
    fn new(distribution: Distribution) -> Dealing {
        Dealing { distribution, offset: 0 }
    }

    /// Calls `take` with the position of a subfile and its next bytes, for all of `bytes`.
    fn deal<E>(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(usize, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let unit = self.distribution.stripe_unit().bytes();
        while !bytes.is_empty() {
            let rest_of_stripe = unit - self.offset % unit;
            let (now, later) = bytes.split_at(bytes.len().min(rest_of_stripe as usize));
            take(self.distribution.locate(self.offset).subfile.index(), now)?;
            self.offset += now.len() as u64;
            bytes = later;
        }
        Ok(())
    }
}

/// The sums of all subfiles, while their bytes pass by.
pub(crate) struct FileSums {
    dealing: Dealing,
    subfiles: Vec<Summing>,
}

impl FileSums {
    pub(crate) fn new(distribution: Distribution) -> FileSums {
        let subfiles = (0..distribution.subfile_count()).map(|_| Summing::default()).collect();
        FileSums { dealing: Dealing::new(distribution), subfiles }
    }

    /// The next bytes of the file.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let subfiles = &mut self.subfiles;
        let Ok(()) = self.dealing.deal(bytes, |subfile, bytes| {
            subfiles[subfile].push(bytes);
            Ok::<(), std::convert::Infallible>(())
        });
    }

    /// Stores the sums beside the subfiles of `name`, and waits until they are on the disks.
    pub(crate) async fn store(
        self,
        client: &SfioClient,
        name: &FileName,
        patience: &Arc<Patience>,
    ) -> Result<(), FileError> {
        let mut stores = JoinSet::new();
        for (subfile, summing) in name.subfiles().iter().zip(self.subfiles) {
            let Some(place) = place_of(subfile) else { continue };
            if stores.len() >= CALLS {
                stores.join_next().await.transpose().expect("a store does not panic").transpose()?;
            }
            let (client, patience, sums) = (client.clone(), Arc::clone(patience), summing.finish());
            stores.spawn(async move {
                let bytes = Bytes::from(sums.emit());
                patience.retry(|_| store(&client, &place, bytes.clone())).await
            });
        }
        while let Some(stored) = stores.join_next().await {
            stored.expect("a store does not panic")?;
        }
        Ok(())
    }
}

async fn store(client: &SfioClient, place: &FileName, bytes: Bytes) -> Result<(), FileError> {
    let file = OpenOptions::new().mode(OpenMode::Truncate).open(client, place).await?;
    file.write_at(0, bytes).await?;
    file.sync_all().await
}

/// Where the sums of a subfile are, as the name of a file of one subfile; none if they cannot be.
fn place_of(subfile: &SubfileName) -> Option<FileName> {
    let sums = SubfileName::new(subfile.member(), beside(subfile.path())?.as_str()).ok()?;
    FileName::new(vec![sums]).ok()
}

/// Compares the bytes of a file, which come in order, with the sums of its subfiles.
pub(crate) struct FileCheck {
    dealing: Dealing,
    /// None for a subfile without sums.
    subfiles: Vec<Option<Checking>>,
    name: FileName,
}

impl FileCheck {
    /// Fetches the sums of `file`.
    pub(crate) async fn load(
        client: &SfioClient,
        file: &StripedFile,
        patience: &Arc<Patience>,
    ) -> Result<FileCheck, Failure> {
        let (layout, sizes) = (file.layout(), file.stat_when_opened().subfile_sizes());
        let mut loads = JoinSet::new();
        let mut subfiles: Vec<Option<Checking>> = sizes.iter().map(|_| None).collect();
        for (index, (subfile, size)) in layout.name().subfiles().iter().zip(sizes).enumerate() {
            let Some(place) = place_of(subfile) else { continue };
            if loads.len() >= CALLS {
                take(&mut subfiles, loads.join_next().await)?;
            }
            let (client, patience, subfile) = (client.clone(), Arc::clone(patience), subfile.clone());
            let size = size.unwrap_or(0);
            loads.spawn(async move { (index, load(&client, &place, &subfile, size, &patience).await) });
        }
        while !loads.is_empty() {
            take(&mut subfiles, loads.join_next().await)?;
        }
        Ok(FileCheck { dealing: Dealing::new(layout.distribution()), subfiles, name: layout.name().clone() })
    }

    /// Compares nothing.
    pub(crate) fn nothing(file: &StripedFile) -> FileCheck {
        let layout = file.layout();
        let subfiles = layout.holders().iter().map(|_| None).collect();
        FileCheck { dealing: Dealing::new(layout.distribution()), subfiles, name: layout.name().clone() }
    }

    /// The subfiles that have bytes and no sums.
    pub(crate) fn unchecked(&self, file: &StripedFile) -> Vec<String> {
        let sizes = file.stat_when_opened().subfile_sizes();
        let subfiles = self.name.subfiles().iter().zip(&self.subfiles).zip(sizes);
        let lacks = |((_, check), size): &((_, &Option<Checking>), &Option<u64>)| {
            check.is_none() && size.is_some_and(|size| size > 0)
        };
        subfiles.filter(lacks).map(|((subfile, _), _)| subfile.to_string()).collect()
    }

    /// The next bytes of the file.
    ///
    /// # Errors
    /// With the place, if they are not those that were stored.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let FileCheck { dealing, subfiles, name } = self;
        dealing.deal(bytes, |index, bytes| match &mut subfiles[index] {
            Some(check) => check.push(bytes).map_err(|wrong| damaged(&name.subfiles()[index], &wrong)),
            None => Ok(()),
        })
    }

    /// The file ends here.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub(crate) fn finish(self) -> Result<(), Failure> {
        for (subfile, check) in self.name.subfiles().iter().zip(self.subfiles) {
            check.map_or(Ok(()), Checking::finish).map_err(|wrong| damaged(subfile, &wrong))?;
        }
        Ok(())
    }
}

type Loaded = Result<(usize, Result<Option<Sums>, Failure>), tokio::task::JoinError>;

fn take(subfiles: &mut [Option<Checking>], loaded: Option<Loaded>) -> Result<(), Failure> {
    let Some(loaded) = loaded else { return Ok(()) };
    let (index, sums) = loaded.or_fail(Exit::Failed, "fetching checksums")?;
    subfiles[index] = sums?.map(Checking::new);
    Ok(())
}

/// The sums of one subfile of that size, if it has some.
async fn load(
    client: &SfioClient,
    place: &FileName,
    subfile: &SubfileName,
    size: u64,
    patience: &Patience,
) -> Result<Option<Sums>, Failure> {
    let existing = OpenOptions::new();
    let opened = patience.retry(|_| existing.open(client, place)).await;
    let file = match opened {
        Err(FileError::Operation(OperationError::NotFound { .. })) => return Ok(None),
        opened => opened.map_err(|error| failure(&error))?,
    };
    let expected = Sums::encoded_length(size);
    let found = file.stat_when_opened().length();
    if found != expected {
        let message = format!(
            "{subfile} has {size} bytes, its checksums have {found} instead of {expected}: one of them was damaged, or \
             changed behind the back of its I/O node"
        );
        return Err(Failure::new(Exit::Integrity, message));
    }
    let bytes = patience.retry(|_| file.read_exact_at(0, expected)).await.map_err(|error| failure(&error))?;
    Sums::parse(&bytes).map(Some).or_fail(Exit::Integrity, subfile)
}

fn damaged(subfile: &SubfileName, wrong: &std::ops::Range<u64>) -> Failure {
    let message = format!(
        "{subfile}: bytes {} to {} are not those that were stored (BLAKE3 of 64 KiB)",
        wrong.start,
        wrong.end.saturating_sub(1)
    );
    Failure::new(Exit::Integrity, message)
}

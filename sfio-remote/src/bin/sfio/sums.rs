//! Checksums beside the subfiles of a file: `put` writes them, `get` compares.

use std::iter;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use sfio_remote::client::{Durability, OpenMode, OperationError};
use sfio_remote::distribution::{Distribution, StripeUnit};
use sfio_remote::io::{FileError, OpenOptions, Patience, SfioClient, StripedFile};
use sfio_remote::name::{FileName, SubfileName};
use sfio_remote::remote_error::ErrorKind;
use sfio_remote::sums::{Checking, Summing, beside};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

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

    /// All of `bytes`, piece by piece, each with the position of its subfile.
    fn deal<'a>(&mut self, mut bytes: &'a [u8]) -> impl Iterator<Item = (usize, &'a [u8])> {
        iter::from_fn(move || {
            let unit = self.distribution.stripe_unit().bytes();
            let rest_of_stripe = unit - self.offset % unit;
            let subfile = self.distribution.locate(self.offset).subfile.index();
            let (now, later) = bytes.split_at(bytes.len().min(rest_of_stripe as usize));
            self.offset += now.len() as u64;
            bytes = later;
            (!now.is_empty()).then_some((subfile, now))
        })
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
        for (subfile, bytes) in self.dealing.deal(bytes) {
            self.subfiles[subfile].push(bytes);
        }
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
            let (client, patience, sums) =
                (client.clone(), Arc::clone(patience), Bytes::from(summing.finish()));
            stores.spawn(async move { patience.retry(|| store(&client, &place, sums.clone())).await });
        }
        while let Some(stored) = stores.join_next().await {
            stored.expect("a store does not panic")?;
        }
        Ok(())
    }
}

async fn store(client: &SfioClient, place: &FileName, bytes: Bytes) -> Result<(), FileError> {
    // One round trip fewer than a sync of its own.
    let options = OpenOptions::new().mode(OpenMode::Truncate).durability(Durability::OnEveryCall);
    options.open(client, place).await?.write_at(0, bytes).await
}

/// Where the sums of a subfile are, as the name of a file of one subfile; none if they cannot be.
fn place_of(subfile: &SubfileName) -> Option<FileName> {
    let sums = SubfileName::new(subfile.member(), beside(subfile.path())?.as_str()).ok()?;
    FileName::new(vec![sums]).ok()
}

/// Compares the bytes of a file, which come in order, with the sums of its subfiles, and fetches these a block ahead.
pub(crate) struct FileCheck {
    dealing: Dealing,
    subfiles: Vec<SubfileCheck>,
}

impl FileCheck {
    /// Begins to fetch the sums of `file`.
    pub(crate) fn begin(client: &SfioClient, file: &StripedFile, patience: &Arc<Patience>) -> FileCheck {
        let calls = Arc::new(Semaphore::new(CALLS));
        FileCheck::of(file, |subfile, length| {
            let (client, patience, calls) = (client.clone(), Arc::clone(patience), Arc::clone(&calls));
            let blocks = Blocks { place: place_of(subfile)?, client, patience, calls };
            let next = blocks.fetch(Checking::block(length, 0));
            Some(Comparison { checking: Checking::new(length), blocks, next })
        })
    }

    /// Compares nothing.
    pub(crate) fn nothing(file: &StripedFile) -> FileCheck {
        FileCheck::of(file, |_, _| None)
    }

    fn of(file: &StripedFile, begin: impl Fn(&SubfileName, u64) -> Option<Comparison>) -> FileCheck {
        let (layout, sizes) = (file.layout(), file.stat_when_opened().subfile_sizes());
        let check = |(name, size): (&SubfileName, &Option<u64>)| {
            let length = size.unwrap_or(0);
            SubfileCheck { name: name.clone(), length, comparison: begin(name, length) }
        };
        let subfiles = layout.name().subfiles().iter().zip(sizes).map(check).collect();
        FileCheck { dealing: Dealing::new(layout.distribution()), subfiles }
    }

    /// The next bytes of the file.
    ///
    /// # Errors
    /// With the place, if they are not those that were stored; also if the sums cannot be fetched or believed.
    pub(crate) async fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        for (subfile, bytes) in self.dealing.deal(bytes) {
            self.subfiles[subfile].push(bytes).await?;
        }
        Ok(())
    }

    /// The file ends here: gives the subfiles that have bytes and no sums.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub(crate) async fn finish(mut self) -> Result<Vec<String>, Failure> {
        for subfile in self.subfiles.iter_mut().filter(|subfile| subfile.length == 0) {
            subfile.take_block().await?;
        }
        let unchecked =
            self.subfiles.iter().filter(|subfile| subfile.comparison.is_none() && subfile.length > 0);
        Ok(unchecked.map(|subfile| subfile.name.to_string()).collect())
    }
}

/// A subfile of a file that is checked.
struct SubfileCheck {
    name: SubfileName,
    length: u64,
    /// None if it has no sums.
    comparison: Option<Comparison>,
}

struct Comparison {
    checking: Checking,
    blocks: Blocks,
    /// The next block, on its way; none behind the last one.
    next: Option<JoinHandle<Result<Bytes, FileError>>>,
}

impl SubfileCheck {
    async fn push(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        while !bytes.is_empty() {
            if self.comparison.as_ref().is_some_and(|comparison| comparison.checking.room() == 0) {
                self.take_block().await?;
            }
            let Some(Comparison { checking, .. }) = &mut self.comparison else { return Ok(()) };
            let room = usize::try_from(checking.room()).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(bytes.len().min(room));
            checking.push(now).map_err(|wrong| self.damaged(&wrong))?;
            bytes = later;
        }
        Ok(())
    }

    /// Waits for the next block of sums, and asks for the one behind it.
    async fn take_block(&mut self) -> Result<(), Failure> {
        let Some(Comparison { checking, blocks, next }) = &mut self.comparison else { return Ok(()) };
        let Some(fetching) = next.take() else { return Err(self.changed()) };
        match fetching.await.or_fail(Exit::Failed, "fetching checksums")? {
            Ok(block) => checking.supply(&block).or_fail(Exit::Integrity, &self.name)?,
            Err(error) if !is_missing(&error) => return Err(failure(&error)),
            Err(_) if checking.is_new() => {
                self.comparison = None;
                return Ok(());
            }
            Err(_) => return Err(self.changed()),
        }
        *next = blocks.fetch(checking.next_block());
        Ok(())
    }

    fn changed(&self) -> Failure {
        Failure::new(Exit::Integrity, format!("{} was changed while it was fetched", self.name))
    }

    fn damaged(&self, wrong: &Range<u64>) -> Failure {
        let (first, last) = (wrong.start, wrong.end.saturating_sub(1));
        let message = format!(
            "{}: bytes {first} to {last} are not those that were stored (BLAKE3 of 64 KiB)",
            self.name
        );
        Failure::new(Exit::Integrity, message)
    }
}

/// Where the sums of a subfile come from.
struct Blocks {
    place: FileName,
    client: SfioClient,
    patience: Arc<Patience>,
    /// Shared by all subfiles.
    calls: Arc<Semaphore>,
}

impl Blocks {
    /// Begins to fetch the sums between two offsets.
    fn fetch(&self, range: Option<Range<u64>>) -> Option<JoinHandle<Result<Bytes, FileError>>> {
        let Range { start, end } = range?;
        let (place, client, patience) = (self.place.clone(), self.client.clone(), Arc::clone(&self.patience));
        let calls = Arc::clone(&self.calls);
        Some(tokio::spawn(async move {
            let _call = calls.acquire().await.expect("nobody closes it");
            patience.retry(|| client.read_at(&place, StripeUnit::DEFAULT, start, end - start)).await
        }))
    }
}

/// Whether there are no sums.
fn is_missing(error: &FileError) -> bool {
    match error {
        FileError::Operation(OperationError::NotFound { .. }) => true,
        FileError::Operation(OperationError::IoNode { error, .. }) => error.kind == ErrorKind::NotFound,
        _ => false,
    }
}

//! Checksums beside the subfiles of a file: `put` writes them, `get` compares.

use std::iter;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use sfio_remote::client::{Durability, OpenMode};
use sfio_remote::distribution::{Distribution, StripeUnit};
use sfio_remote::io::{FileError, OpenOptions, Patience, SfioClient, StripedFile};
use sfio_remote::name::{FileName, SubfileName};
use sfio_remote::sums::{
    Checking, HEADER_BYTES, Origin, Place, PutId, Summing, SumsError, beside, origin_of,
};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

use crate::client::{CALLS, failure, is_missing};
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
    pub(crate) fn new(put: PutId, distribution: Distribution) -> FileSums {
        let summing = |place| Summing::new(Origin { put, place });
        let subfiles = places(distribution).map(summing).collect();
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

/// The places of all subfiles.
fn places(distribution: Distribution) -> impl Iterator<Item = Place> {
    let (stripe_unit, subfiles) = (distribution.stripe_unit().bytes(), distribution.subfile_count() as u32);
    (0..subfiles).map(move |subfile| Place { stripe_unit, subfile, subfiles })
}

/// Whether the sums of all subfiles are there, and are those of this put.
pub(crate) async fn are_of(
    put: PutId,
    client: &SfioClient,
    name: &FileName,
    patience: &Arc<Patience>,
) -> Result<bool, FileError> {
    for subfile in name.subfiles() {
        // Whose sums have no place, nobody can tell.
        let Some(place) = place_of(subfile) else { return Ok(false) };
        let read = || client.read_at(&place, StripeUnit::DEFAULT, 0, HEADER_BYTES as u64);
        match patience.retry(read).await {
            Ok(header) if origin_of(&header).is_some_and(|origin| origin.put == put) => {}
            Err(error) if !is_missing(&error) => return Err(error),
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// Compares the bytes of a file, which come in order, with the sums of its subfiles, and fetches these a block ahead.
pub(crate) struct FileCheck {
    dealing: Dealing,
    /// The put that has stored it, once that is known.
    put: Option<PutId>,
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
        let check = |((name, size), place): ((&SubfileName, &Option<u64>), Place)| {
            let length = size.unwrap_or(0);
            SubfileCheck { name: name.clone(), length, place, comparison: begin(name, length) }
        };
        let places = places(layout.distribution());
        let subfiles = layout.name().subfiles().iter().zip(sizes).zip(places).map(check).collect();
        FileCheck { dealing: Dealing::new(layout.distribution()), put: None, subfiles }
    }

    /// The next bytes of the file.
    ///
    /// # Errors
    /// With the place, if they are not those that were stored; also if the sums cannot be fetched or believed.
    pub(crate) async fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let FileCheck { dealing, put, subfiles } = self;
        for (subfile, bytes) in dealing.deal(bytes) {
            subfiles[subfile].push(bytes, put).await?;
        }
        Ok(())
    }

    /// The file ends here: gives the subfiles that have bytes and no sums.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub(crate) async fn finish(mut self) -> Result<Vec<String>, Failure> {
        for subfile in self.subfiles.iter_mut().filter(|subfile| subfile.length == 0) {
            subfile.take_block(&mut self.put).await?;
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
    /// Where it should be in the file.
    place: Place,
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
    async fn push(&mut self, mut bytes: &[u8], put: &mut Option<PutId>) -> Result<(), Failure> {
        while !bytes.is_empty() {
            if self.comparison.as_ref().is_some_and(|comparison| comparison.checking.room() == 0) {
                self.take_block(put).await?;
            }
            let Some(Comparison { checking, .. }) = &mut self.comparison else { return Ok(()) };
            let room = usize::try_from(checking.room()).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(bytes.len().min(room));
            checking.push(now).map_err(|wrong| self.damaged(&wrong))?;
            bytes = later;
        }
        Ok(())
    }

    /// Waits for the next block of sums, and asks for the one behind it. All subfiles are of one `put`, which the first
    /// of them tells.
    async fn take_block(&mut self, put: &mut Option<PutId>) -> Result<(), Failure> {
        let Some(Comparison { checking, blocks, next }) = &mut self.comparison else { return Ok(()) };
        let Some(fetching) = next.take() else { return Err(self.changed()) };
        let is_first = checking.origin().is_none();
        let supplied = match fetching.await.or_fail(Exit::Failed, "fetching checksums")? {
            Ok(block) => checking.supply(&block),
            Err(error) if !is_missing(&error) => return Err(failure(&error)),
            Err(_) if is_first => {
                self.comparison = None;
                return Ok(());
            }
            Err(_) => return Err(self.changed()),
        };
        match supplied {
            Err(SumsError::Damaged) if !is_first => return Err(self.changed_or_damaged()),
            supplied => supplied.or_fail(Exit::Integrity, &self.name)?,
        }
        *next = blocks.fetch(checking.next_block());
        match checking.origin() {
            Some(found) if *put.get_or_insert(found.put) != found.put => Err(self.changed()),
            Some(found) if found.place != self.place => Err(self.elsewhere(&found.place)),
            _ => Ok(()),
        }
    }

    fn elsewhere(&self, found: &Place) -> Failure {
        let describe = |place: &Place| {
            let Place { stripe_unit, subfile, subfiles } = place;
            format!("subfile {} of {subfiles} with a stripe unit of {stripe_unit} bytes", subfile + 1)
        };
        let message = format!(
            "{} was stored as {}, and not as {}; name all subfiles in the order in which they were stored, and their \
             stripe unit, or get it with --no-check",
            self.name,
            describe(found),
            describe(&self.place)
        );
        Failure::new(Exit::Integrity, message)
    }

    fn changed(&self) -> Failure {
        Failure::new(Exit::Integrity, format!("{} was changed while it was fetched", self.name))
    }

    fn changed_or_damaged(&self) -> Failure {
        let message = format!("{} was changed while it was fetched, or its checksums are damaged", self.name);
        Failure::new(Exit::Integrity, message)
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

//! What a folder holds, as the payload of a reply.
//!
//! ```text
//! ┌───────────────┐
//! │     more      │ 1 if there is more behind the last name, else 0
//! └───────────────┘
//! then, for each entry, by ascending bytes of the names:
//! ┌───────────────┬───────────────┬───────────────────────────────┬ ─ ─ ─
//! │     kind      │  name length  │        size (64 bits)         │ name
//! └───────────────┴───────────────┴───────────────────────────────┴ ─ ─ ─
//! ```
//!
//! Kinds: 1 file, 2 folder, 3 anything else; 128 more if a session that lives is writing it.

use super::WireError;
use super::field::{Fields, at_most, text};
use crate::distribution::MAX_LENGTH;
use crate::name::{EntryName, MAX_NAME_BYTES};
use crate::store::{ENTRY_BYTES, Entry, EntryKind, Listing};

/// The longest listing of one reply, in bytes.
pub const MAX_LISTING_BYTES: usize = 64 << 10;

const BEING_WRITTEN: u8 = 0x80;

/// As many entries as fit into one reply; if some do not, there is more.
pub fn emit_listing(listing: &Listing) -> Vec<u8> {
    let mut bytes = vec![0];
    let mut emitted = 0;
    for entry in &listing.entries {
        let name = entry.name.as_str();
        if bytes.len() + ENTRY_BYTES + name.len() > MAX_LISTING_BYTES {
            break;
        }
        let kind = match entry.kind {
            EntryKind::File => 1,
            EntryKind::Folder => 2,
            EntryKind::Other => 3,
        };
        // A name has at most 255 bytes.
        bytes.extend([kind | if entry.is_being_written { BEING_WRITTEN } else { 0 }, name.len() as u8]);
        bytes.extend(entry.size.to_be_bytes());
        bytes.extend_from_slice(name.as_bytes());
        emitted += 1;
    }
    bytes[0] = u8::from(listing.more || emitted < listing.entries.len());
    bytes
}

/// The listing that `bytes` are.
///
/// # Errors
/// If they are no listing, or its names do not ascend.
pub fn parse_listing(bytes: &[u8]) -> Result<Listing, WireError> {
    at_most("the listing", bytes.len() as u64, MAX_LISTING_BYTES as u64)?;
    let mut fields = Fields::new(bytes);
    let more = at_most("the mark of more", fields.u8()?.into(), 1)? == 1;
    let mut entries: Vec<Entry> = Vec::new();
    while !fields.is_empty() {
        let entry = parse_entry(&mut fields)?;
        if entries.last().is_some_and(|last| last.name >= entry.name) {
            return Err(WireError::Order(entry.name.to_string()));
        }
        entries.push(entry);
    }
    Ok(Listing { entries, more })
}

fn parse_entry(fields: &mut Fields<'_>) -> Result<Entry, WireError> {
    let (code, length) = (fields.u8()?, fields.u8()?);
    let size = at_most("the size", fields.u64()?, MAX_LENGTH)?;
    let kind = match code & !BEING_WRITTEN {
        1 => EntryKind::File,
        2 => EntryKind::Folder,
        3 => EntryKind::Other,
        _ => return Err(WireError::Unknown { what: "kind of entry", value: code.into() }),
    };
    debug_assert!(usize::from(length) <= MAX_NAME_BYTES, "a length of eight bits");
    let name = EntryName::new(text("name", fields.bytes(length.into())?)?)?;
    Ok(Entry { name, kind, size, is_being_written: code & BEING_WRITTEN != 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_listing() -> impl Strategy<Value = Listing> {
        let kind = prop::sample::select(vec![EntryKind::File, EntryKind::Folder, EntryKind::Other]);
        let entry = (kind, 0..=MAX_LENGTH, any::<bool>());
        let entries = prop::collection::btree_map("[a-zü .]{3,40}", entry, 0..30).prop_map(|entries| {
            let entry = |(name, (kind, size, is_being_written)): (String, _)| Entry {
                name: EntryName::new(&name).expect("a right name"),
                kind,
                size,
                is_being_written,
            };
            entries.into_iter().map(entry).collect()
        });
        (entries, any::<bool>()).prop_map(|(entries, more)| Listing { entries, more })
    }

    fn file(name: &str) -> Entry {
        let name = EntryName::new(name).expect("a right name");
        Entry { name, kind: EntryKind::File, size: 7, is_being_written: false }
    }

    #[test]
    fn what_does_not_fit_is_left_for_the_next_reply() {
        let names = (0..1_000).map(|number| file(&format!("{number:0100}")));
        let listing = Listing { entries: names.collect(), more: false };
        let bytes = emit_listing(&listing);
        assert!(bytes.len() <= MAX_LISTING_BYTES);
        let parsed = parse_listing(&bytes).expect("a right listing");
        assert_eq!((parsed.entries.len(), parsed.more), (MAX_LISTING_BYTES / 110, true));
    }

    #[test]
    fn each_fault_is_named() {
        let good = emit_listing(&Listing { entries: vec![file("b")], more: false });
        let fault = |bytes: &[u8]| parse_listing(bytes).expect_err("wrong").to_string();
        assert!(fault(&[]).contains("ends after 0 of 1"));
        assert!(fault(&[2]).contains("the mark of more is 2"));
        assert!(fault(&[&good[..], &good[1..]].concat()).contains("\"b\" is not behind"));
        assert!(fault(&good[..good.len() - 1]).contains("ends after 11 of 12"));
        assert!(fault(&[0, 9, 1, 0, 0, 0, 0, 0, 0, 0, 0, b'a']).contains("9 is no kind of entry"));
        assert!(fault(&[0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]).contains("the path is empty"));
        assert!(fault(&[0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, b'/']).contains("path is empty"));
        assert!(fault(&vec![0; MAX_LISTING_BYTES + 1]).contains("at most 65536"));
    }

    proptest! {
        #[test]
        fn parse_of_emit_is_the_identity(listing in any_listing()) {
            prop_assert_eq!(parse_listing(&emit_listing(&listing)), Ok(listing));
        }

        #[test]
        fn garbage_is_an_error_or_has_one_spelling(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(listing) = parse_listing(&bytes) {
                prop_assert_eq!(emit_listing(&listing), bytes);
            }
        }
    }
}

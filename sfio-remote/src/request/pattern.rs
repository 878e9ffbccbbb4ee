//! Patterns: which bytes of a file, or of a caller's memory, belong to a call, as MPI's derived datatypes describe
//! them.
//!
//! ```text
//! vector(3 blocks of 2, stride 4, of one byte)    ██··██··██      size 6, extent 10
//! resized to an extent of 12, twice               ██··██··██····██··██··██··
//! ```
//!
//! A pattern is a tree of repetitions, so that a matrix's column costs a few numbers however long it is.
//! `[thesis §2.9]`

use crate::distribution::MAX_LENGTH;

/// Bytes at ascending or any other places from an origin: the **size** is how many, the **extent** how far apart two
/// patterns of this kind stand when they are repeated.
///
/// ```
/// use sfio_remote::request::Pattern;
///
/// let byte = Pattern::bytes(1)?;
/// let column = Pattern::subarray(&[3, 4], &[3, 1], &[0, 2], &byte)?;
/// assert_eq!((column.size(), column.extent()), (3, 12));
/// assert_eq!(column.pieces().collect::<Vec<_>>(), [(2, 1), (6, 1), (10, 1)]);
/// # Ok::<(), sfio_remote::request::PatternError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    shape: Shape,
    size: u64,
    extent: u64,
    /// The offset behind the last byte.
    end: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Shape {
    /// This many bytes, one behind the other.
    Bytes(u64),
    /// `count` times the same, `stride` bytes from origin to origin.
    Repetition { count: u64, stride: u64, of: Box<Pattern> },
    /// Different ones, each with its origin.
    Sequence(Vec<(u64, Pattern)>),
}

/// A pattern that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Its last byte lies beyond every possible file, or it has more bytes than one.
    #[error("the pattern ends beyond the largest file, {MAX_LENGTH} bytes")]
    TooLarge,
    /// There is not exactly one number for each dimension.
    #[error("an array of {sizes} dimensions with {subsizes} sizes and {starts} starts of its part")]
    Dimensions {
        /// Dimensions of the array.
        sizes: usize,
        /// Sizes of the part.
        subsizes: usize,
        /// Starts of the part.
        starts: usize,
    },
    /// A part that sticks out of its array.
    #[error("in dimension {dimension} the part {start}..{end} sticks out of the array's {size} elements")]
    OutOfArray {
        /// The dimension, counted from 0.
        dimension: usize,
        /// Where the part begins.
        start: u64,
        /// Where it ends.
        end: u128,
        /// The array's size.
        size: u64,
    },
    /// A file's pattern without a byte, or of which the extent is too small for it, cannot be repeated.
    #[error("a pattern of {size} bytes up to offset {end} cannot be repeated every {extent} bytes")]
    NotRepeatable {
        /// Its bytes.
        size: u64,
        /// Where the last one ends.
        end: u64,
        /// Its extent.
        extent: u64,
    },
}

type Result<T> = std::result::Result<T, PatternError>;

impl Pattern {
    /// `length` bytes, one behind the other.
    ///
    /// # Errors
    /// If that is more than any file has.
    pub fn bytes(length: u64) -> Result<Pattern> {
        Pattern::checked(Shape::Bytes(length), length.into(), length.into(), length.into())
    }

    /// `count` patterns, one behind the other.
    ///
    /// # Errors
    /// If they end beyond every file.
    pub fn contiguous(count: u64, of: &Pattern) -> Result<Pattern> {
        Pattern::repetition(count, of.extent, of)
    }

    /// `count` blocks of `block` patterns each, `stride` patterns from the beginning of one block to that of the next.
    ///
    /// # Errors
    /// If they end beyond every file.
    pub fn vector(count: u64, block: u64, stride: u64, of: &Pattern) -> Result<Pattern> {
        let stride = stride.checked_mul(of.extent).ok_or(PatternError::TooLarge)?;
        Pattern::repetition(count, stride, &Pattern::contiguous(block, of)?)
    }

    /// Blocks of patterns, each a displacement and a count in patterns.
    ///
    /// # Errors
    /// If one ends beyond every file.
    pub fn indexed(blocks: &[(u64, u64)], of: &Pattern) -> Result<Pattern> {
        let place = |(displacement, count): &(u64, u64)| {
            let origin = displacement.checked_mul(of.extent).ok_or(PatternError::TooLarge)?;
            Ok((origin, Pattern::contiguous(*count, of)?))
        };
        Pattern::sequence(blocks.iter().map(place).collect::<Result<_>>()?)
    }

    /// The part of an array that begins at `starts` and has `subsizes` elements; the array has `sizes`, the last
    /// dimension is the one that varies fastest. The extent is that of the whole array.
    ///
    /// # Errors
    /// If the part sticks out of the array, or the array is larger than any file.
    pub fn subarray(sizes: &[u64], subsizes: &[u64], starts: &[u64], of: &Pattern) -> Result<Pattern> {
        if sizes.len() != subsizes.len() || sizes.len() != starts.len() {
            let (sizes, subsizes, starts) = (sizes.len(), subsizes.len(), starts.len());
            return Err(PatternError::Dimensions { sizes, subsizes, starts });
        }
        let (mut part, mut origin, mut stride) = (of.clone(), 0_u64, of.extent);
        for dimension in (0..sizes.len()).rev() {
            let (size, count, start) = (sizes[dimension], subsizes[dimension], starts[dimension]);
            let end = u128::from(start) + u128::from(count);
            if end > u128::from(size) {
                return Err(PatternError::OutOfArray { dimension, start, end, size });
            }
            part = Pattern::repetition(count, stride, &part)?;
            let skipped = start.checked_mul(stride).ok_or(PatternError::TooLarge)?;
            origin = origin.checked_add(skipped).ok_or(PatternError::TooLarge)?;
            stride = stride.checked_mul(size).ok_or(PatternError::TooLarge)?;
        }
        Pattern::sequence(vec![(origin, part)])?.resized(stride)
    }

    /// The same bytes with another extent.
    ///
    /// # Errors
    /// If the extent is larger than any file.
    pub fn resized(self, extent: u64) -> Result<Pattern> {
        if extent > MAX_LENGTH {
            return Err(PatternError::TooLarge);
        }
        Ok(Pattern { extent, ..self })
    }

    /// The number of bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// How far apart two of them stand when they are repeated.
    pub fn extent(&self) -> u64 {
        self.extent
    }

    /// The offset behind the last byte, from the origin on.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The bytes as offsets and lengths, in the order of the pattern; what touches is one piece.
    pub fn pieces(&self) -> Joined<Pieces<'_>> {
        Joined { pieces: Pieces { stack: vec![Frame { pattern: self, origin: 0, index: 0 }] }, next: None }
    }

    /// The bytes of this pattern repeated for ever from `origin` on, without the first `skipped` of them.
    ///
    /// # Errors
    /// If it has no bytes, or repetitions would overlap.
    pub fn tiled(&self, origin: u64, skipped: u64) -> Result<impl Iterator<Item = (u64, u64)> + '_> {
        if self.size == 0 || self.extent < self.end {
            return Err(PatternError::NotRepeatable { size: self.size, end: self.end, extent: self.extent });
        }
        // Without gaps it is one piece for ever.
        let is_dense = self.extent == self.size && self.pieces().next() == Some((0, self.size));
        let dense = is_dense.then(|| (origin.saturating_add(skipped), u64::MAX));
        let (first, mut skipped) = (skipped / self.size, skipped % self.size);
        // A caller that reaches the largest offset gets an error when it makes a region of the piece.
        let origins = (first..).map_while(move |tile| tile.checked_mul(self.extent)?.checked_add(origin));
        let pieces = origins.flat_map(|origin| {
            self.pieces().map(move |(offset, length)| (origin.saturating_add(offset), length))
        });
        let behind = pieces.filter_map(move |(offset, length)| {
            let cut = skipped.min(length);
            skipped -= cut;
            (cut < length).then(|| (offset + cut, length - cut))
        });
        Ok(dense.into_iter().chain(behind.take(if is_dense { 0 } else { usize::MAX })))
    }

    fn repetition(count: u64, stride: u64, of: &Pattern) -> Result<Pattern> {
        let (count, stride, last) = (u128::from(count), u128::from(stride), count.saturating_sub(1));
        let size = count * u128::from(of.size);
        let extent = if count == 0 { 0 } else { u128::from(last) * stride + u128::from(of.extent) };
        let end = u128::from(last) * stride + u128::from(of.end);
        let dense = of.shape == Shape::Bytes(of.size) && stride == u128::from(of.size);
        let shape = match (dense, u64::try_from(size), u64::try_from(stride), count as u64) {
            _ if size == 0 => Shape::Bytes(0),
            (true, Ok(size), ..) => Shape::Bytes(size),
            (_, _, Ok(stride), count) => Shape::Repetition { count, stride, of: Box::new(of.clone()) },
            _ => return Err(PatternError::TooLarge),
        };
        Pattern::checked(shape, size, extent, if size == 0 { 0 } else { end })
    }

    fn sequence(mut parts: Vec<(u64, Pattern)>) -> Result<Pattern> {
        parts.retain(|(_, part)| part.size > 0);
        let size = parts.iter().map(|(_, part)| u128::from(part.size)).sum();
        let reach = |measure: fn(&Pattern) -> u64| {
            let ends = parts.iter().map(|(origin, part)| u128::from(*origin) + u128::from(measure(part)));
            ends.max().unwrap_or(0)
        };
        let (extent, end) = (reach(|part| part.extent), reach(|part| part.end));
        Pattern::checked(Shape::Sequence(parts), size, extent, end)
    }

    fn checked(shape: Shape, size: u128, extent: u128, end: u128) -> Result<Pattern> {
        let fit = |number: u128| {
            u64::try_from(number).ok().filter(|n| *n <= MAX_LENGTH).ok_or(PatternError::TooLarge)
        };
        Ok(Pattern { shape, size: fit(size)?, extent: fit(extent)?, end: fit(end)? })
    }
}

/// Iterator over the pieces of a pattern, as its tree has them.
#[derive(Debug, Clone)]
pub struct Pieces<'a> {
    stack: Vec<Frame<'a>>,
}

/// A pattern that is being walked over.
#[derive(Debug, Clone)]
struct Frame<'a> {
    pattern: &'a Pattern,
    origin: u64,
    /// How many of its parts are behind us.
    index: u64,
}

impl Iterator for Pieces<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        loop {
            let frame = self.stack.last_mut()?;
            let index = frame.index;
            frame.index += 1;
            let inner = match &frame.pattern.shape {
                Shape::Bytes(length) if index == 0 && *length > 0 => return Some((frame.origin, *length)),
                Shape::Repetition { count, stride, of } if index < *count => {
                    Some(Frame { pattern: of, origin: frame.origin + index * stride, index: 0 })
                }
                Shape::Sequence(parts) => parts.get(index as usize).map(|(origin, part)| Frame {
                    pattern: part,
                    origin: frame.origin + origin,
                    index: 0,
                }),
                _ => None,
            };
            match inner {
                Some(inner) => self.stack.push(inner),
                None => drop(self.stack.pop()),
            }
        }
    }
}

/// Iterator adapter that joins pieces of which one begins where the one before ends.
#[derive(Debug, Clone)]
pub struct Joined<I> {
    pieces: I,
    next: Option<(u64, u64)>,
}

impl<I: Iterator<Item = (u64, u64)>> Iterator for Joined<I> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        let (offset, mut length) = self.next.take().or_else(|| self.pieces.next())?;
        for (behind, more) in self.pieces.by_ref() {
            if offset + length != behind {
                self.next = Some((behind, more));
                break;
            }
            length += more;
        }
        Some((offset, length))
    }
}

/// Cuts two sequences of pieces, each an offset and a length, where either is cut: offset in the one, offset in the
/// other, length. Ends with the shorter.
pub(super) fn side_by_side(
    one: impl Iterator<Item = (u64, u64)>,
    other: impl Iterator<Item = (u64, u64)>,
) -> impl Iterator<Item = (u64, u64, u64)> {
    let (mut one, mut other) = (one, other);
    let (mut left, mut right) = ((0, 0), (0, 0));
    std::iter::from_fn(move || {
        while left.1 == 0 {
            left = one.next()?;
        }
        while right.1 == 0 {
            right = other.next()?;
        }
        let length = left.1.min(right.1);
        let piece = (left.0, right.0, length);
        for side in [&mut left, &mut right] {
            *side = (side.0.saturating_add(length), side.1 - length);
        }
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A pattern, and every one of its bytes.
    type Known = (Pattern, Vec<u64>);

    fn repeated(bytes: &[u64], count: u64, stride: u64) -> Vec<u64> {
        (0..count).flat_map(|i| bytes.iter().map(move |byte| i * stride + byte)).collect()
    }

    fn any_pattern() -> impl Strategy<Value = Known> {
        let leaf = (1_u64..5).prop_map(|n| (Pattern::bytes(n).expect("small"), (0..n).collect::<Vec<_>>()));
        leaf.prop_recursive(3, 30, 3, |inner| {
            let vector =
                (inner.clone(), 0_u64..4, 0_u64..4, 0_u64..5).prop_map(|((of, bytes), n, block, stride)| {
                    let known = repeated(&repeated(&bytes, block, of.extent()), n, stride * of.extent());
                    (Pattern::vector(n, block, stride, &of).expect("small"), known)
                });
            let blocks = prop::collection::vec((0_u64..6, 0_u64..4), 0..4);
            let indexed = (inner.clone(), blocks).prop_map(|((of, bytes), blocks)| {
                let block = |(at, n): &(u64, u64)| {
                    let at = at * of.extent();
                    repeated(&bytes, *n, of.extent())
                        .into_iter()
                        .map(move |byte| at + byte)
                        .collect::<Vec<_>>()
                };
                (Pattern::indexed(&blocks, &of).expect("small"), blocks.iter().flat_map(block).collect())
            });
            let resized = (inner, 0_u64..40)
                .prop_map(|((of, bytes), extent)| (of.resized(extent).expect("small"), bytes));
            prop_oneof![vector, indexed, resized]
        })
    }

    fn bytes_of(pieces: impl Iterator<Item = (u64, u64)>) -> Vec<u64> {
        pieces.flat_map(|(offset, length)| offset..offset + length).collect()
    }

    proptest! {
        #[test]
        fn a_pattern_has_the_bytes_of_its_definition((pattern, bytes) in any_pattern()) {
            prop_assert_eq!(&bytes_of(pattern.pieces()), &bytes);
            prop_assert_eq!(pattern.size(), bytes.len() as u64);
            prop_assert_eq!(pattern.end(), bytes.iter().max().map_or(0, |last| last + 1));
            let pieces: Vec<_> = pattern.pieces().collect();
            prop_assert!(pieces.windows(2).all(|pair| pair[0].0 + pair[0].1 != pair[1].0));
        }

        #[test]
        fn tiles_follow_one_another((pattern, bytes) in any_pattern(), origin in 0_u64..9, skipped in 0_u64..90) {
            match pattern.tiled(origin, skipped) {
                Err(_) => prop_assert!(bytes.is_empty() || pattern.extent() < pattern.end()),
                Ok(tiles) => {
                    let expected = repeated(&bytes, 200, pattern.extent()).into_iter().map(|byte| byte + origin);
                    let expected: Vec<u64> = expected.skip(skipped as usize).take(50).collect();
                    let found = tiles.flat_map(|(offset, length)| offset..offset.saturating_add(length));
                    prop_assert_eq!(found.take(50).collect::<Vec<_>>(), expected);
                }
            }
        }

        #[test]
        fn a_part_of_an_array_is_where_its_elements_are(sizes in prop::collection::vec((1_u64..5, 0_u64..5, 0_u64..5), 1..4), element in 1_u64..4) {
            let columns: [Vec<u64>; 3] = [0, 1, 2].map(|i| sizes.iter().map(|s| [s.0, s.1, s.2][i]).collect());
            let of = Pattern::bytes(element)?;
            let pattern = Pattern::subarray(&columns[0], &columns[1], &columns[2], &of);
            if sizes.iter().any(|(size, part, start)| start + part > *size) {
                let is_refused = matches!(pattern, Err(PatternError::OutOfArray { .. }));
                prop_assert!(is_refused);
                return Ok(());
            }
            let pattern = pattern?;
            let mut elements = vec![0];
            for (size, part, start) in &sizes {
                elements = elements.iter().flat_map(|e| (*start..start + part).map(move |i| e * size + i)).collect();
            }
            let expected: Vec<u64> = elements.iter().flat_map(|e| e * element..(e + 1) * element).collect();
            prop_assert_eq!(bytes_of(pattern.pieces()), expected);
            prop_assert_eq!(pattern.extent(), sizes.iter().map(|s| s.0).product::<u64>() * element);
        }
    }

    #[test]
    fn what_no_file_can_hold_is_refused() {
        let kib = Pattern::bytes(1 << 10).expect("possible");
        assert_eq!(Pattern::contiguous(1 << 60, &kib), Err(PatternError::TooLarge));
        assert_eq!(Pattern::vector(2, 1, u64::MAX, &kib), Err(PatternError::TooLarge));
        assert_eq!(Pattern::bytes(1 << 63), Err(PatternError::TooLarge));
        assert!(Pattern::subarray(&[3], &[1, 1], &[0], &kib).is_err());
        // A column of a matrix with 2^40 rows is a few numbers.
        let column = Pattern::vector(1 << 40, 1, 1 << 10, &Pattern::bytes(8).expect("possible"));
        assert_eq!(column.expect("possible").pieces().nth(1_000), Some((8_192_000, 8)));
    }

    #[test]
    fn two_sequences_are_cut_where_either_is() {
        let pieces = side_by_side([(0, 5), (10, 5)].into_iter(), [(100, 2), (200, 4), (300, 9)].into_iter());
        assert_eq!(pieces.collect::<Vec<_>>(), [(0, 100, 2), (2, 200, 3), (10, 203, 1), (11, 300, 4)]);
    }
}

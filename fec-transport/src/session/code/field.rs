//! GF(2⁸), the field of both codes: polynomials over bits modulo x⁸ + x⁴ + x³ + x² + 1 (0x11d), of which x generates
//! all elements but 0.

/// Elements other than 0: their logarithms count modulo this.
const ORDER: usize = 255;
/// The polynomial without its highest term.
const POLYNOMIAL: u8 = 0x1d;

/// xⁱ for i below [`ORDER`].
static POWERS: [u8; ORDER] = powers();
/// The logarithm of each element but 0.
static LOGARITHMS: [u8; 256] = logarithms();
/// The inverse of each element but 0.
static INVERSES: [u8; 256] = inverses();

const fn powers() -> [u8; ORDER] {
    let (mut powers, mut power, mut index) = ([0; ORDER], 1, 0);
    while index < ORDER {
        powers[index] = power;
        power = doubled(power);
        index += 1;
    }
    powers
}

const fn logarithms() -> [u8; 256] {
    let (mut logarithms, mut index) = ([0; 256], 0);
    while index < ORDER {
        logarithms[power(index) as usize] = index as u8;
        index += 1;
    }
    logarithms
}

const fn inverses() -> [u8; 256] {
    let (mut inverses, mut index) = ([0; 256], 0);
    while index < ORDER {
        inverses[power(index) as usize] = power(ORDER - index);
        index += 1;
    }
    inverses
}

/// x times an element.
pub(super) const fn doubled(element: u8) -> u8 {
    (element << 1) ^ if element & 0x80 == 0 { 0 } else { POLYNOMIAL }
}

pub(super) const fn product(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 { 0 } else { power(logarithm(a) + logarithm(b)) }
}

/// The inverse of an element that is not 0.
pub(super) const fn inverse(element: u8) -> u8 {
    debug_assert!(element != 0, "0 has no inverse");
    INVERSES[element as usize]
}

/// The logarithm of an element that is not 0, below 255.
pub(super) const fn logarithm(element: u8) -> usize {
    debug_assert!(element != 0, "0 has no logarithm");
    LOGARITHMS[element as usize] as usize
}

/// The element with that logarithm.
pub(super) const fn power(logarithm: usize) -> u8 {
    POWERS[logarithm % ORDER]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The product by definition.
    fn by_definition(a: u8, b: u8) -> u8 {
        let (mut sum, mut multiple) = (0, a);
        for bit in 0..8 {
            if b >> bit & 1 == 1 {
                sum ^= multiple;
            }
            multiple = doubled(multiple);
        }
        sum
    }

    #[test]
    fn products_are_those_of_polynomials() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(product(a, b), by_definition(a, b), "{a} times {b}");
            }
        }
    }

    #[test]
    fn an_element_times_its_inverse_is_one() {
        (1..=255).for_each(|element| assert_eq!(product(element, inverse(element)), 1));
    }
}

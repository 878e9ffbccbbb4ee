//! The part of a page's address that only those know who may see the page.

use std::fmt::Write as _;

use crate::exit::Failure;
use crate::random::random_bytes;

/// 128 random bits.
pub(super) struct Token(String);

impl Token {
    pub(super) fn random() -> Result<Token, Failure> {
        let bits: [u8; 16] = random_bytes()?;
        let mut text = String::new();
        bits.iter().for_each(|byte| write!(text, "{byte:02x}").expect("a string takes everything"));
        Ok(Token(text))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Whether somebody knows it. How long the answer takes tells nothing: hashes are compared, and blake3 does that in
    /// constant time.
    pub(super) fn is(&self, said: &str) -> bool {
        blake3::hash(said.as_bytes()) == blake3::hash(self.0.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_long_fits_into_an_address_and_is_never_the_same() {
        let (one, other) = (Token::random().expect("random"), Token::random().expect("random"));
        assert!(one.text().len() == 32 && one.text().bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_ne!(one.text(), other.text());
    }

    #[test]
    fn only_the_whole_token_is_it() {
        let token = Token::random().expect("random");
        assert!(token.is(token.text()));
        assert!(
            !token.is("")
                && !token.is(&token.text()[1..])
                && !token.is(&token.text().to_uppercase().repeat(2))
        );
    }
}

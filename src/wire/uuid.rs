//! Kafka's UUID: sixteen bytes, shown as unpadded URL-safe base64 (KIP-516).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// "No id": what a client sends that names topics instead.
    pub const ZERO: Uuid = Uuid([0; 16]);

    /// A random id; never zero, and never one whose text form starts with a dash (it would read as a flag).
    pub fn random() -> Uuid {
        loop {
            let mut bytes = [0; 16];
            getrandom::fill(&mut bytes).expect("the system has a random source");
            let id = Uuid(bytes);
            if id != Uuid::ZERO && !id.to_string().starts_with('-') {
                return id;
            }
        }
    }

    /// Reads the text form.
    pub fn parse(text: &str) -> Option<Uuid> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        Some(Uuid(bytes.try_into().ok()?))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

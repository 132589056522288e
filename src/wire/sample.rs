//! Random values for tests: a message whose every field that exists in a version holds something.

/// A small reproducible generator (xorshift); no use where randomness matters.
pub struct Sampler {
    version: i16,
    state: u64,
}

impl Sampler {
    pub fn new(version: i16, seed: u64) -> Sampler {
        Sampler { version, state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    pub fn version(&self) -> i16 {
        self.version
    }

    pub fn word(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// A number from zero, less than `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        (self.word() >> 11) % bound
    }

    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| {
            let [low, ..] = (self.word() >> 24).to_le_bytes();
            low
        })
    }

    /// Mostly short, sometimes long enough for a length of two varint bytes, not only ASCII.
    pub fn text(&mut self) -> String {
        let length = if self.below(8) == 0 { self.below(300) } else { self.below(12) };
        (0..length).filter_map(|_| ALPHABET.get(usize::try_from(self.below(8)).ok()?)).collect()
    }
}

const ALPHABET: [char; 8] = ['a', 'Z', '-', '.', '7', 'é', '→', '🦀'];

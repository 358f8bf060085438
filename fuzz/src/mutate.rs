//! Damage, drawn from one number: flips, cuts, repeats, splices, and the values that break arithmetic.

/// Draws the damage of one input.
pub(crate) struct Mutator {
    state: u64,
}

const EDGES: [u64; 10] =
    [0, 1, 0x7f, 0x80, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 0x7fff_ffff_ffff_ffff, u64::MAX];
/// No input grows beyond this.
const BYTES_MAX: usize = 64 << 10;

impl Mutator {
    pub(crate) fn new(iteration: u64) -> Self {
        Self { state: iteration.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) }
    }

    /// A seed with a few kinds of damage; now and then untouched, now and then nothing but noise.
    pub(crate) fn input(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = seeds[self.below(seeds.len())].clone();
        match self.below(50) {
            0 => return bytes,
            1 => return (0..self.below(200)).map(|_| self.next() as u8).collect(),
            _ => {}
        }
        for _ in 0..=self.below(4) {
            self.damage(&mut bytes, seeds);
        }
        bytes.truncate(BYTES_MAX);
        bytes
    }

    /// The same for text, with pieces that matter to its reading put in.
    pub(crate) fn text(&mut self, seeds: &[Vec<u8>], pieces: &[&[u8]]) -> Vec<u8> {
        let mut bytes = self.input(seeds);
        for _ in 0..self.below(4) {
            let at = self.below(bytes.len() + 1);
            let piece = pieces[self.below(pieces.len())];
            let end = if self.below(2) == 0 { at } else { (at + self.below(8)).min(bytes.len()) };
            let times = if self.below(40) == 0 { 1 + self.below(300) } else { 1 };
            bytes.splice(at..end, piece.repeat(times));
        }
        bytes.truncate(BYTES_MAX);
        bytes
    }

    /// A seed that can still be read, with other numbers in it, the largest there are among them.
    pub(crate) fn numbers(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut rest = seeds[self.below(seeds.len())].as_slice();
        let mut bytes = Vec::with_capacity(rest.len());
        while let Some(at) = rest.iter().position(u8::is_ascii_digit) {
            let end = at + rest[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            bytes.extend_from_slice(&rest[..at]);
            if self.below(2) == 0 {
                bytes.extend_from_slice(EDGES[self.below(EDGES.len())].to_string().as_bytes());
            } else {
                bytes.extend_from_slice(&rest[at..end]);
            }
            rest = &rest[end..];
        }
        bytes.extend_from_slice(rest);
        bytes
    }

    fn damage(&mut self, bytes: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        let at = self.below(bytes.len() + 1);
        match self.below(8) {
            0 | 1 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << self.below(8);
                }
            }
            2 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = self.next() as u8;
                }
            }
            3 => bytes.truncate(at),
            4 => {
                let edge = EDGES[self.below(EDGES.len())].to_le_bytes();
                let width = 1 << self.below(4);
                for (offset, value) in edge.iter().take(width).enumerate() {
                    if let Some(byte) = bytes.get_mut(at + offset) {
                        *byte = *value;
                    }
                }
            }
            5 => {
                let count = self.below(40);
                let piece: Vec<u8> = bytes[at..].iter().take(count).copied().collect();
                bytes.splice(at..at, piece);
            }
            6 => {
                let end = (at + self.below(16)).min(bytes.len());
                bytes.drain(at..end);
            }
            _ => {
                let other = &seeds[self.below(seeds.len())];
                let from = self.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.next() % bound as u64) as usize }
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }
}

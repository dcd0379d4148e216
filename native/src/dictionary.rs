//! The different values of a column that has few of them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::kinds::hash_words;

/// Values in the order in which they were first seen, as Arrow stores them.
#[derive(Default)]
pub struct Dictionary {
    codes: HashMap<Vec<u8>, u32, BuildHasherDefault<WordHasher>>,
    pub offsets: Vec<u8>,
    pub data: Vec<u8>,
}

impl Dictionary {
    pub fn restart(&mut self) {
        self.codes.clear();
        self.data.clear();
        self.offsets.clear();
        self.offsets.extend_from_slice(&[0; 4]);
    }

    /// The number of a value.
    pub fn code(&mut self, value: &[u8]) -> u32 {
        if let Some(&code) = self.codes.get(value) {
            return code;
        }
        let code = self.codes.len() as u32;
        self.codes.insert(value.to_vec(), code);
        self.data.extend_from_slice(value);
        self.offsets.extend_from_slice(&(self.data.len() as u32).to_le_bytes());
        code
    }
}

/// Eight bytes at a time: names and sessions come from one's own oplog, and need no protection.
#[derive(Default)]
pub struct WordHasher(u64);

impl Hasher for WordHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash_words(self.0, bytes);
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 29
    }
}

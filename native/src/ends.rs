//! The ends of transactions, as Python has found them to be written.

use std::collections::HashMap;

use crate::kinds::Layout;

const LARGE_NUMBER: i64 = 1 << 53;

/// What the tokens of a session share.
pub struct SessionToken {
    pub middle: Vec<u8>,
    pub type_bits: Option<Vec<u8>>,
}

/// The layouts of ends by the size of the session and by namespaces, and what tokens of sessions share.
#[derive(Default)]
pub struct Ends {
    layouts: HashMap<(usize, Vec<u32>), usize>,
    sessions: HashMap<Vec<u8>, usize>,
    pub all_layouts: Vec<Layout>,
    pub all_sessions: Vec<SessionToken>,
}

impl Ends {
    /// The numbers of the layout and of the session of an end, if both are known.
    pub fn find(&self, lsid: &[u8], namespaces: &[u32], number: i64) -> Option<(usize, usize)> {
        if !(1..LARGE_NUMBER).contains(&number) {
            return None;
        }
        let session = *self.sessions.get(lsid)?;
        // A copy of the numbers, which are few, and there is one end for several rows.
        Some((*self.layouts.get(&(lsid.len(), namespaces.to_vec()))?, session))
    }

    /// How many layouts and sessions are known.
    pub fn len(&self) -> usize {
        self.all_layouts.len().max(self.all_sessions.len())
    }

    pub fn learn(&mut self, lsid_size: usize, namespaces: Vec<u32>, layout: Layout) {
        self.layouts.insert((lsid_size, namespaces), self.all_layouts.len());
        self.all_layouts.push(layout);
    }

    pub fn learn_session(&mut self, lsid: &[u8], session: SessionToken) {
        self.sessions.insert(lsid.to_vec(), self.all_sessions.len());
        self.all_sessions.push(session);
    }
}

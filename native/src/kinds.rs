//! What rows of one operation on one collection share, as Python has found it.

use crate::keys;
use crate::rows::{Operation, Row};

/// What goes between the fixed pieces of a template.
#[derive(Clone, Copy)]
pub enum Hole {
    Document,
    Key,
    Update,
    Number,
    Session,
    Time,
    Wall,
    TimeHex,
    IndexHex,
    KeyHex,
    NumberHex,
    /// How many operations a transaction has.
    Count,
    /// What the tokens of a session have before the number of the transaction.
    SessionHex,
}

impl Hole {
    pub fn of(letter: u8) -> Option<Hole> {
        Some(match letter {
            b'd' => Hole::Document,
            b'k' => Hole::Key,
            b'u' => Hole::Update,
            b'n' => Hole::Number,
            b's' => Hole::Session,
            b't' => Hole::Time,
            b'w' => Hole::Wall,
            b'T' => Hole::TimeHex,
            b'I' => Hole::IndexHex,
            b'K' => Hole::KeyHex,
            b'N' => Hole::NumberHex,
            b'c' => Hole::Count,
            b'S' => Hole::SessionHex,
            _ => return None,
        })
    }
}

/// Where the values of a row are.
pub struct Sources<'a> {
    pub memory: &'a [u8],
    pub descriptions: &'a [u8],
    pub session: &'a [u8],
}

/// Fixed pieces and holes in turn.
pub struct Template {
    fixed: Vec<u8>,
    steps: Vec<(usize, Hole)>,
}

impl Template {
    /// There is one piece more than there are holes.
    pub fn new(pieces: &[Vec<u8>], holes: &[u8]) -> Option<Template> {
        if pieces.len() != holes.len() + 1 {
            return None;
        }
        let mut steps = Vec::new();
        let mut end = 0;
        for (piece, &hole) in pieces.iter().zip(holes) {
            end += piece.len();
            steps.push((end, Hole::of(hole)?));
        }
        Some(Template { fixed: pieces.concat(), steps })
    }

    /// Append the template with the values of a row.
    pub fn push(&self, row: &Row, sources: &Sources, out: &mut Vec<u8>) {
        let memory = sources.memory;
        let mut start = 0;
        for &(end, hole) in &self.steps {
            out.extend_from_slice(&self.fixed[start..end]);
            start = end;
            match hole {
                Hole::Document => out.extend_from_slice(row.o.of(memory)),
                Hole::Key => out.extend_from_slice(row.key.of(memory)),
                Hole::Update => out.extend_from_slice(row.description.of(sources.descriptions)),
                Hole::Number => out.extend_from_slice(&row.number.to_le_bytes()),
                Hole::Session => out.extend_from_slice(row.lsid.of(memory)),
                Hole::Time => out.extend_from_slice(&row.time.to_le_bytes()),
                Hole::Wall => out.extend_from_slice(&row.wall.to_le_bytes()),
                Hole::TimeHex => keys::push_time(row.time, out),
                Hole::IndexHex => keys::push_integer(u64::from(row.index), out),
                Hole::KeyHex => row.form.push_hex(row.key.of(memory), out),
                Hole::NumberHex => keys::push_integer(row.number as u64, out),
                Hole::Count => out.extend_from_slice(&i64::from(row.index).to_le_bytes()),
                Hole::SessionHex => out.extend_from_slice(sources.session),
            }
        }
        out.extend_from_slice(&self.fixed[start..]);
    }
}

/// How the rows of a kind are written.
pub struct Layout {
    pub token: Template,
    pub event: Template,
    /// The column `entry_rest`; nothing where it is null.
    pub rest: Option<Template>,
    /// Operation, database, collection and UUID.
    pub names: [Option<Vec<u8>>; 4],
    pub shard: Vec<u8>,
}

pub struct Kind {
    hash: u64,
    shard: u32,
    pub operation: Operation,
    pub head: Vec<u8>,
    /// The number of the shard's namespace.
    pub namespace: u32,
    /// For changes outside of transactions, and inside.
    pub layouts: [Option<Layout>; 2],
    pub is_asked: [bool; 2],
}

/// The kinds by shard, operation and head: a table with open addressing.
#[derive(Default)]
pub struct Kinds {
    pub all: Vec<Kind>,
    slots: Vec<u32>,
}

const FREE: u32 = u32::MAX;

impl Kinds {
    /// The number of a kind, which is new if it has no layouts.
    pub fn find(&mut self, shard: u32, operation: Operation, head: &[u8]) -> usize {
        if self.slots.len() < 2 * (self.all.len() + 1) {
            self.grow();
        }
        let hash = hash_of(shard, operation, head);
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            let number = self.slots[slot];
            if number == FREE {
                break;
            }
            let kind = &self.all[number as usize];
            if kind.hash == hash && kind.shard == shard && kind.operation == operation && kind.head == head {
                return number as usize;
            }
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = self.all.len() as u32;
        let (head, layouts) = (head.to_vec(), [None, None]);
        self.all.push(Kind { hash, shard, operation, head, namespace: 0, layouts, is_asked: [false; 2] });
        self.all.len() - 1
    }

    fn grow(&mut self) {
        let size = (4 * (self.all.len() + 1)).next_power_of_two().max(64);
        self.slots = vec![FREE; size];
        for (number, kind) in self.all.iter().enumerate() {
            let mut slot = kind.hash as usize & (size - 1);
            while self.slots[slot] != FREE {
                slot = (slot + 1) & (size - 1);
            }
            self.slots[slot] = number as u32;
        }
    }
}

fn hash_of(shard: u32, operation: Operation, head: &[u8]) -> u64 {
    let hash = hash_words((u64::from(shard) << 8 | operation as u64) ^ (head.len() as u64) << 40, head);
    hash ^ hash >> 29
}

/// Add bytes to a hash, eight at a time.
pub fn hash_words(mut hash: u64, bytes: &[u8]) -> u64 {
    const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        hash = (hash.rotate_left(5) ^ u64::from_le_bytes(*word)).wrapping_mul(MIX);
    }
    for &byte in rest {
        hash = (hash.rotate_left(5) ^ u64::from(byte)).wrapping_mul(MIX);
    }
    hash
}

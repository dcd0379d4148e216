//! Reading BSON at positions of a buffer. Nothing here panics: what is damaged or unusual is `None`.

pub const STRING: u8 = 0x02;
pub const DOCUMENT: u8 = 0x03;
pub const ARRAY: u8 = 0x04;
pub const BINARY: u8 = 0x05;
pub const OBJECT_ID: u8 = 0x07;
pub const BOOL: u8 = 0x08;
pub const DATE: u8 = 0x09;
pub const INT32: u8 = 0x10;
pub const TIMESTAMP: u8 = 0x11;
pub const INT64: u8 = 0x12;

/// Where a value is.
#[derive(Clone, Copy)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

impl Span {
    pub fn size(self) -> usize {
        self.end - self.start
    }

    pub fn of(self, memory: &[u8]) -> Option<&[u8]> {
        memory.get(self.start..self.end)
    }
}

pub fn int32(memory: &[u8], at: usize) -> Option<i32> {
    let bytes = memory.get(at..at.checked_add(4)?)?;
    Some(i32::from_le_bytes(bytes.try_into().ok()?))
}

pub fn int64(memory: &[u8], at: usize) -> Option<i64> {
    let bytes = memory.get(at..at.checked_add(8)?)?;
    Some(i64::from_le_bytes(bytes.try_into().ok()?))
}

pub fn has_at(memory: &[u8], at: usize, text: &[u8]) -> bool {
    memory.get(at..).is_some_and(|rest| rest.starts_with(text))
}

/// The size at ``at`` and what is added to it, if it is at least ``smallest``.
fn sized(memory: &[u8], at: usize, smallest: i32, more: usize) -> Option<usize> {
    let size = int32(memory, at)?;
    if size < smallest {
        return None;
    }
    at.checked_add(size as usize)?.checked_add(more)
}

/// Where a value ends. Patterns and pointers are left to the reference.
fn value_end(memory: &[u8], kind: u8, start: usize) -> Option<usize> {
    match kind {
        0x01 | DATE | TIMESTAMP | INT64 => Some(start + 8),
        STRING | 0x0d | 0x0e => sized(memory, start, 1, 4),
        DOCUMENT | ARRAY | 0x0f => sized(memory, start, 5, 0),
        BINARY => sized(memory, start, 0, 5),
        OBJECT_ID => Some(start + 12),
        BOOL => Some(start + 1),
        INT32 => Some(start + 4),
        0x06 | 0x0a | 0x7f | 0xff => Some(start),
        0x13 => Some(start + 16),
        _ => None,
    }
}

/// One field: its type byte is at ``at``.
#[derive(Clone, Copy)]
pub struct Element<'a> {
    pub kind: u8,
    pub at: usize,
    pub name: &'a [u8],
    /// The first eight bytes of the name, as `word` has them: quicker to compare.
    pub word: u64,
    pub value: Span,
}

/// The first eight bytes of a name, with NULs after a shorter one.
pub const fn word(name: &[u8]) -> u64 {
    let mut found = 0;
    let mut place = 0;
    while place < name.len() && place < 8 {
        found |= (name[place] as u64) << (8 * place);
        place += 1;
    }
    found
}

/// The length of the name that bytes begin with, and its word.
fn name_at(bytes: &[u8]) -> Option<(usize, u64)> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    let Some(first) = bytes.first_chunk::<8>() else {
        let length = bytes.iter().position(|&byte| byte == 0)?;
        return Some((length, word(&bytes[..length])));
    };
    let found = u64::from_le_bytes(*first);
    // The lowest set bit is in the first byte that is 0.
    let zeros = found.wrapping_sub(LOW) & !found & (LOW << 7);
    if zeros != 0 {
        let length = zeros.trailing_zeros() / 8;
        return Some((length as usize, found & ((1 << (8 * length)) - 1)));
    }
    let more = bytes[8..].iter().position(|&byte| byte == 0)?;
    Some((8 + more, found))
}

/// The fields of a document, one after the other.
pub struct Fields<'a> {
    memory: &'a [u8],
    position: usize,
    end: usize,
}

impl<'a> Fields<'a> {
    /// The fields of the document at ``start``, which has to end in a NUL, not after ``limit``.
    pub fn new(memory: &'a [u8], start: usize, limit: usize) -> Option<Self> {
        let stop = sized(memory, start, 5, 0)?;
        if stop > limit || *memory.get(stop - 1)? != 0 {
            return None;
        }
        Some(Fields { memory, position: start + 4, end: stop - 1 })
    }

    pub fn is_over(&self) -> bool {
        self.position >= self.end
    }

    /// The next field; `None` if it is damaged.
    pub fn step(&mut self) -> Option<Element<'a>> {
        let at = self.position;
        let rest = self.memory.get(at..self.end)?;
        let (&kind, rest) = rest.split_first()?;
        let (length, word) = name_at(rest)?;
        let start = at + length + 2;
        let end = value_end(self.memory, kind, start)?;
        if end > self.end {
            return None;
        }
        self.position = end;
        Some(Element { kind, at, name: &rest[..length], word, value: Span { start, end } })
    }
}

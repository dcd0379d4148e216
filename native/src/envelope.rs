//! The fields of an oplog entry or of an operation inside of one, in any order.

use crate::bson::{self, Fields, Span};

const UUID_SIZE: usize = 21;
const OPTIME_SIZE: usize = 28;
const MOST_FIELDS: usize = 40;
const LONGEST_HEAD: usize = 1024;

const OP: u64 = bson::word(b"op");
const NS: u64 = bson::word(b"ns");
const UI: u64 = bson::word(b"ui");
const O: u64 = bson::word(b"o");
const O2: u64 = bson::word(b"o2");
const TS: u64 = bson::word(b"ts");
const T: u64 = bson::word(b"t");
const WALL: u64 = bson::word(b"wall");
const LSID: u64 = bson::word(b"lsid");
const TXN_NUMBER: u64 = bson::word(b"txnNumber");
const PREVIOUS: u64 = bson::word(b"prevOpTime");
const MULTI: u64 = bson::word(b"multiOpType");
const FROM_MIGRATE: u64 = bson::word(b"fromMigrate");
const IS_TIMESERIES: u64 = bson::word(b"isTimeseries");

/// Where the parts of an entry are.
#[derive(Default)]
pub struct Envelope {
    op: Option<Span>,
    ns: Option<Span>,
    ui: Option<Span>,
    pub o: Option<Span>,
    pub o2: Option<Span>,
    pub ts: Option<usize>,
    pub wall: Option<usize>,
    pub lsid: Option<Span>,
    pub number: Option<usize>,
    previous: Option<usize>,
    multi: Option<i32>,
    is_together: bool,
}

fn set<T>(place: &mut Option<T>, value: T) -> Option<()> {
    place.replace(value).is_none().then_some(())
}

impl Envelope {
    /// Read the document at ``start``; `None` if it is damaged, or has a field that is left to the reference.
    pub fn read(memory: &[u8], start: usize, end: usize) -> Option<Envelope> {
        if bson::int32(memory, start)? as usize != end.checked_sub(start)? {
            return None;
        }
        let mut found = Envelope::default();
        let mut fields = Fields::new(memory, start, end)?;
        let mut term = None;
        let mut last = 0;
        let mut count = 0;
        while !fields.is_over() {
            let field = fields.step()?;
            let value = field.value;
            let expected = match field.word {
                OP => {
                    set(&mut found.op, Span { start: field.at, end: value.end })?;
                    if value.size() != 6 {
                        return None;
                    }
                    bson::STRING
                }
                NS => {
                    set(&mut found.ns, value)?;
                    bson::STRING
                }
                UI => {
                    set(&mut found.ui, value)?;
                    found.is_together = last == b'n';
                    if value.size() != UUID_SIZE {
                        return None;
                    }
                    bson::BINARY
                }
                O => {
                    set(&mut found.o, value)?;
                    bson::DOCUMENT
                }
                O2 => {
                    set(&mut found.o2, value)?;
                    bson::DOCUMENT
                }
                TS => {
                    set(&mut found.ts, value.start)?;
                    bson::TIMESTAMP
                }
                T => {
                    set(&mut term, value.start)?;
                    bson::INT64
                }
                WALL => {
                    set(&mut found.wall, value.start)?;
                    bson::DATE
                }
                LSID => {
                    set(&mut found.lsid, value)?;
                    bson::DOCUMENT
                }
                TXN_NUMBER if field.name == b"txnNumber" => {
                    set(&mut found.number, value.start)?;
                    bson::INT64
                }
                PREVIOUS if field.name == b"prevOpTime" => {
                    let is_time = value.size() == OPTIME_SIZE
                        && bson::has_at(memory, value.start, b"\x1c\0\0\0\x11ts\0")
                        && bson::has_at(memory, value.start + 16, b"\x12t\0")
                        && memory.get(value.end - 1) == Some(&0);
                    if !is_time {
                        return None;
                    }
                    set(&mut found.previous, value.start + 8)?;
                    bson::DOCUMENT
                }
                MULTI if field.name == b"multiOpType" => {
                    set(&mut found.multi, bson::int32(memory, value.start)?)?;
                    bson::INT32
                }
                FROM_MIGRATE | IS_TIMESERIES => return None,
                _ if matches!(field.kind, 0x01..=0x05 | 0x07..=0x09 | 0x10..=0x12) => field.kind,
                _ => return None,
            };
            if field.kind != expected {
                return None;
            }
            last = match field.word {
                OP => b'o',
                NS if last == b'o' => b'n',
                _ => 0,
            };
            count += 1;
        }
        let is_usual = found.op.is_some() && found.ns.is_some() && found.o.is_some() && count <= MOST_FIELDS;
        is_usual.then_some(found)
    }

    /// The letter of the operation.
    pub fn letter(&self, memory: &[u8]) -> Option<u8> {
        memory.get(self.op?.end - 2).copied()
    }

    /// `op`, `ns` and `ui`, which follow each other in every change of a document.
    pub fn head(&self) -> Option<Span> {
        let head = Span { start: self.op?.start, end: self.ui?.end };
        (self.is_together && head.size() <= LONGEST_HEAD).then_some(head)
    }

    /// The operations, and whether they are a batch, if this is an `applyOps` that is complete in itself.
    pub fn operations(&self, memory: &[u8]) -> Option<(Span, bool)> {
        let o = self.o?;
        let has_both = self.lsid.is_some() == self.number.is_some();
        let is_command = bson::has_at(memory, self.op?.end - 2, b"c\0")
            && self.ns?.of(memory)? == b"\x0b\0\0\0admin.$cmd\0"
            && self.ui.is_none();
        if !is_command || !has_both || !bson::has_at(memory, o.start + 4, b"\x04applyOps\0") {
            return None;
        }
        let start = o.start + 4 + 10;
        let end = start + usize::try_from(bson::int32(memory, start)?).ok()?;
        if end + 1 != o.end || *memory.get(o.end - 1)? != 0 {
            return None;
        }
        let is_batch = match self.multi {
            None | Some(0) => false,
            Some(1) => true,
            _ => return None,
        };
        let has_none_before = match self.previous {
            Some(previous) => bson::int64(memory, previous)? == 0,
            None => true,
        };
        (is_batch || has_none_before).then_some((Span { start, end }, is_batch))
    }
}

//! The rows of entries: where their parts are.

use crate::bson::{self, Fields, Span};
use crate::describe::Describer;
use crate::ends::Ends;
use crate::envelope::Envelope;
use crate::keys::KeyForm;
use crate::kinds::Kinds;

const LAST_DATE: i64 = 253_402_300_799_999;
const DELTA_LEAD: &[u8] = b"\x10$v\0\x02\0\0\0\x03diff\0";
const DIFF_START: usize = 4 + DELTA_LEAD.len();

/// Numbered as in `plain_entries.py`.
#[derive(Clone, Copy, PartialEq)]
#[repr(u8)]
pub enum Operation {
    Inserted,
    Replaced,
    Updated,
    Deleted,
}

/// A slice of a memory of less than 4 GB; the empty one if there is none.
#[derive(Clone, Copy, Default)]
pub struct Part {
    start: u32,
    end: u32,
}

impl Part {
    pub fn of(self, memory: &[u8]) -> &[u8] {
        &memory[self.start as usize..self.end as usize]
    }

    pub fn is_there(self) -> bool {
        self.end > self.start
    }
}

impl From<Span> for Part {
    fn from(span: Span) -> Part {
        Part { start: span.start as u32, end: span.end as u32 }
    }
}

#[derive(Clone, Copy)]
pub struct Row {
    pub time: u64,
    pub wall: i64,
    pub number: i64,
    pub o: Part,
    pub key: Part,
    pub lsid: Part,
    pub description: Part,
    pub kind: u32,
    pub index: u32,
    /// Which of all entries of the memory it is, or is in.
    pub entry: u32,
    pub memory: u16,
    pub form: KeyForm,
    pub has_number: bool,
    /// It is inside of a transaction or of a batch.
    pub is_inside: bool,
    /// Its event shows the transaction's session.
    pub shows_session: bool,
    /// It is the end of a transaction; `kind` is the number of its layout, and the index counts its operations.
    pub end_session: Option<u32>,
}

impl Row {
    /// The end of the transaction that a row belongs to.
    fn end(&self, count: usize, layout: usize, session: usize) -> Row {
        let (nothing, end_session) = (Part::default(), Some(session as u32));
        let (kind, index) = (layout as u32, count as u32);
        Row { o: nothing, key: nothing, description: nothing, kind, index, end_session, ..*self }
    }
}

/// The rows of a transaction that is in one entry.
pub type End = std::ops::Range<usize>;

/// What operations have from the entry around them.
#[derive(Clone, Copy)]
struct Outer {
    time: u64,
    wall: i64,
    number: Option<i64>,
    lsid: Option<Span>,
    entry: u32,
    memory: u16,
    is_inside: bool,
    shows_session: bool,
}

/// The rows of some memories.
#[derive(Default)]
pub struct Scan {
    pub rows: Vec<Row>,
    pub descriptions: Vec<u8>,
    pub ends: Vec<End>,
    /// Kinds, and whether their events show a session, that have no layout yet; and the first row of each.
    pub unknown: Vec<(usize, bool, usize)>,
    /// The entries of the memory that was added last that have no rows, in order.
    pub left: Vec<u32>,
    /// How many rows are of memories before that one.
    settled: usize,
    describer: Describer,
}

impl Scan {
    /// Add the rows of the entries of a memory, the first of which begins at ``start``.
    pub fn add(
        &mut self,
        kinds: &mut Kinds,
        memory: &[u8],
        number: u16,
        shard: u32,
        mut start: usize,
        ends: &[i64],
    ) {
        self.left.clear();
        for (entry, &end) in ends.iter().enumerate() {
            let end = end as usize;
            let (before, described, asked) = (self.rows.len(), self.descriptions.len(), self.unknown.len());
            let entry = entry as u32;
            let is_taken = end <= memory.len()
                && self.rows.len() < u32::MAX as usize
                && self.descriptions.len() < 1 << 31
                && self.entry(kinds, memory, Span { start, end }, entry, number, shard).is_some();
            if !is_taken {
                self.rows.truncate(before);
                self.descriptions.truncate(described);
                for (kind, shows_session, _) in self.unknown.drain(asked..) {
                    kinds.all[kind].is_asked[usize::from(shows_session)] = false;
                }
                self.left.push(entry);
            }
            start = end;
        }
    }

    /// The rows of the memory that was added last are complete: without a layout they are left.
    ///
    /// Entries are left as a whole. Returns the transactions whose ends Python has to write.
    pub fn settle<T>(
        &mut self,
        kinds: &mut Kinds,
        ends: &Ends,
        memory: &[u8],
        marks_end: bool,
        of_end: impl Fn(&[Row], Vec<u32>) -> T,
    ) -> Vec<T> {
        let mut refused = Vec::new();
        self.forget_questions(kinds);
        for row in &self.rows[self.settled..] {
            if kinds.all[row.kind as usize].layouts[usize::from(row.shows_session)].is_none() {
                refused.push(row.entry);
            }
        }
        refused.dedup();
        let is_kept = |row: &Row| refused.binary_search(&row.entry).is_err();
        let (mut made, mut unknown) = (Vec::new(), Vec::new());
        for range in self.ends.drain(..).filter(|_| marks_end) {
            let rows = &self.rows[range];
            if let Some(first) = rows.first().filter(|row| is_kept(row)) {
                let mut own: Vec<u32> =
                    rows.iter().map(|row| kinds.all[row.kind as usize].namespace).collect();
                own.sort_unstable();
                own.dedup();
                match ends.find(first.lsid.of(memory), &own, first.number) {
                    Some((layout, session)) => made.push(first.end(rows.len(), layout, session)),
                    None => unknown.push(of_end(rows, own)),
                }
            }
        }
        if !refused.is_empty() {
            let settled = self.settled;
            let mut place = 0;
            self.rows.retain(|row| {
                place += 1;
                place <= settled || is_kept(row)
            });
            self.left.extend_from_slice(&refused);
            self.left.sort_unstable();
        }
        self.rows.append(&mut made);
        self.settled = self.rows.len();
        unknown
    }

    fn forget_questions(&mut self, kinds: &mut Kinds) {
        for (kind, shows_session, _) in self.unknown.drain(..) {
            kinds.all[kind].is_asked[usize::from(shows_session)] = false;
        }
    }

    pub fn clear(&mut self, kinds: &mut Kinds) {
        self.forget_questions(kinds);
        self.rows.clear();
        self.descriptions.clear();
        self.ends.clear();
        self.left.clear();
        self.settled = 0;
    }

    fn entry(
        &mut self,
        kinds: &mut Kinds,
        memory: &[u8],
        place: Span,
        entry: u32,
        number: u16,
        shard: u32,
    ) -> Option<()> {
        let envelope = Envelope::read(memory, place.start, place.end)?;
        let mut outer = Outer {
            time: bson::int64(memory, envelope.ts?)? as u64,
            wall: bson::int64(memory, envelope.wall?)?,
            number: match envelope.number {
                Some(at) => Some(bson::int64(memory, at)?),
                None => None,
            },
            lsid: envelope.lsid,
            entry,
            memory: number,
            is_inside: false,
            shows_session: false,
        };
        if outer.time == 0 || !(0..=LAST_DATE).contains(&outer.wall) {
            return None;
        }
        let Some((array, is_batch)) = envelope.operations(memory) else {
            return self.change(kinds, memory, &envelope, &outer, shard, 0);
        };
        outer.is_inside = true;
        if is_batch {
            // The session of a batch is not shown.
            (outer.lsid, outer.number) = (None, None);
        }
        outer.shows_session = outer.lsid.is_some();
        let first = self.rows.len();
        let mut operations = Fields::new(memory, array.start, array.end)?;
        let mut index = 0;
        while !operations.is_over() {
            let operation = operations.step()?;
            if operation.kind != bson::DOCUMENT {
                return None;
            }
            let inner = Envelope::read(memory, operation.value.start, operation.value.end)?;
            self.change(kinds, memory, &inner, &outer, shard, index)?;
            index += 1;
        }
        if index == 0 {
            return None;
        }
        if outer.shows_session {
            self.ends.push(first..self.rows.len());
        }
        Some(())
    }

    fn change(
        &mut self,
        kinds: &mut Kinds,
        memory: &[u8],
        envelope: &Envelope,
        outer: &Outer,
        shard: u32,
        index: u32,
    ) -> Option<()> {
        let head = envelope.head()?;
        let o = envelope.o?;
        let (operation, key) = match envelope.letter(memory)? {
            b'i' => (Operation::Inserted, envelope.o2?),
            b'd' => (Operation::Deleted, o),
            b'u' if is_delta(memory, o) => (Operation::Updated, envelope.o2?),
            b'u' if has_id(memory, o) => (Operation::Replaced, envelope.o2?),
            _ => return None,
        };
        let form = KeyForm::of(key.of(memory)?)?;
        let start = self.descriptions.len();
        if operation == Operation::Updated {
            let diff = Span { start: o.start + DIFF_START, end: o.end - 1 };
            self.describer.describe(memory, diff, &mut self.descriptions)?;
        }
        let kind = kinds.find(shard, operation, head.of(memory)?);
        let known = &mut kinds.all[kind];
        let variant = usize::from(outer.shows_session);
        if known.layouts[variant].is_none() && !known.is_asked[variant] {
            known.is_asked[variant] = true;
            self.unknown.push((kind, outer.shows_session, self.rows.len()));
        }
        self.rows.push(Row {
            time: outer.time,
            wall: outer.wall,
            number: outer.number.unwrap_or(0),
            o: o.into(),
            key: key.into(),
            lsid: outer.lsid.map_or_else(Part::default, Part::from),
            description: Span { start, end: self.descriptions.len() }.into(),
            kind: kind as u32,
            index,
            entry: outer.entry,
            memory: outer.memory,
            form,
            has_number: outer.number.is_some(),
            is_inside: outer.is_inside,
            shows_session: outer.shows_session,
            end_session: None,
        });
        Some(())
    }
}

/// Whether an update's `o` is a diff and nothing else.
fn is_delta(memory: &[u8], o: Span) -> bool {
    bson::has_at(memory, o.start + 4, DELTA_LEAD)
        && bson::int32(memory, o.start + DIFF_START)
            .is_some_and(|size| i64::from(size) + DIFF_START as i64 + 1 == o.size() as i64)
}

/// Whether a document begins with an `_id`: then it is a replacement.
fn has_id(memory: &[u8], o: Span) -> bool {
    let first = Fields::new(memory, o.start, o.end).and_then(|mut fields| fields.step());
    first.is_some_and(|field| field.name == b"_id")
}

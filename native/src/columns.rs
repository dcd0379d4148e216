//! The columns of rows in order, with finished rows between them.

use crate::describe::close;
use crate::dictionary::Dictionary;
use crate::ends::Ends;
use crate::kinds::{Kinds, Layout, Sources, Template};
use crate::rows::{Row, Scan};

/// The columns in the order in which they are taken and returned.
pub const COLUMNS: [&str; 17] = [
    "token",
    "token_type_bits",
    "cluster_time",
    "increment",
    "wall_time",
    "operation",
    "db",
    "coll",
    "uuid",
    "document_key",
    "event",
    "pre_image",
    "shard",
    "txn_index",
    "entry_rest",
    "session",
    "txn_number",
];
const TOKEN: usize = 0;
const TYPE_BITS: usize = 1;
const CLUSTER_TIME: usize = 2;
const INCREMENT: usize = 3;
const WALL: usize = 4;
const OPERATION: usize = 5;
const DOCUMENT_KEY: usize = 9;
const EVENT: usize = 10;
const PRE_IMAGE: usize = 11;
const SHARD: usize = 12;
const INDEX: usize = 13;
const REST: usize = 14;
const SESSION: usize = 15;
const NUMBER: usize = 16;
const NUMBERS: [usize; 5] = [CLUSTER_TIME, INCREMENT, WALL, INDEX, NUMBER];
/// Columns with few different values, in the order of the names of a layout, its shard, and sessions.
const REPEATED: [usize; 6] = [OPERATION, OPERATION + 1, OPERATION + 2, OPERATION + 3, SHARD, SESSION];
const OF_LAYOUT: usize = 5;
const OF_SESSION: usize = 5;
const MICROSECONDS: i64 = 1_000;
const SECOND: i64 = 1_000_000;
const MOST_BYTES: usize = i32::MAX as usize;
const ROWS_AT_ONCE: usize = 256;
const BYTES_AT_ONCE: usize = 1 << 16;
const CACHE_LINE: usize = 64;
const MOST_TOUCHED: usize = 1 << 10;

/// One column of finished rows. There is a byte for each row in ``valid``, unless all are.
pub struct Finished<'a> {
    pub valid: Option<&'a [u8]>,
    pub offsets: &'a [u8],
    pub data: &'a [u8],
}

impl<'a> Finished<'a> {
    fn is_valid(&self, row: usize) -> bool {
        self.valid.is_none_or(|valid| valid[row] != 0)
    }

    fn bytes(&self, row: usize) -> Option<&'a [u8]> {
        let start = word(self.offsets, row) as usize;
        let end = word(self.offsets, row + 1) as usize;
        self.is_valid(row).then(|| &self.data[start..end])
    }

    fn number(&self, row: usize) -> Option<i64> {
        self.is_valid(row).then(|| long(self.data, row))
    }
}

fn word(data: &[u8], place: usize) -> i32 {
    i32::from_le_bytes(data.as_chunks().0[place])
}

fn long(data: &[u8], place: usize) -> i64 {
    i64::from_le_bytes(data.as_chunks().0[place])
}

/// A column as Arrow stores it; numbers have no offsets.
#[derive(Default)]
pub struct Column {
    /// Of the rows up to the last one that is null.
    valid: Vec<bool>,
    count: usize,
    pub offsets: Vec<u8>,
    /// Of the last rows: what is written is put elsewhere soon, while it is in the processor's cache.
    data: Vec<u8>,
    /// How many bytes the rows before them have.
    pub put: usize,
}

impl Column {
    fn restart(&mut self, has_offsets: bool) {
        self.valid.clear();
        self.count = 0;
        self.offsets.clear();
        self.data.clear();
        self.put = 0;
        if has_offsets {
            self.offsets.extend_from_slice(&[0; 4]);
        }
    }

    fn note(&mut self, is_valid: bool) {
        if !is_valid {
            self.valid.resize(self.count, true);
            self.valid.push(false);
        }
        self.count += 1;
    }

    fn end_value(&mut self, is_valid: bool) {
        self.note(is_valid);
        self.offsets.extend_from_slice(&((self.put + self.data.len()) as u32).to_le_bytes());
    }

    fn push_bytes(&mut self, value: Option<&[u8]>) {
        if let Some(value) = value {
            self.data.extend_from_slice(value);
        }
        self.end_value(value.is_some());
    }

    fn push_number(&mut self, value: Option<i64>) {
        self.note(value.is_some());
        self.data.extend_from_slice(&value.unwrap_or(0).to_le_bytes());
    }

    fn push_code(&mut self, value: Option<u32>) {
        self.note(value.is_some());
        self.data.extend_from_slice(&value.unwrap_or(0).to_le_bytes());
    }

    /// The bitmap of rows that are not null, if some are.
    pub fn bitmap(&self) -> Option<Vec<u8>> {
        if self.valid.is_empty() {
            return None;
        }
        let byte_of = |chunk: &[bool]| {
            chunk.iter().enumerate().fold(0, |byte, (place, &is_valid)| byte | u8::from(is_valid) << place)
        };
        let mut bits: Vec<u8> = self.valid.chunks(8).map(byte_of).collect();
        if let Some(last) = bits.last_mut().filter(|_| self.valid.len() % 8 > 0) {
            *last |= 0xFF << (self.valid.len() % 8);
        }
        bits.resize(self.count.div_ceil(8), 0xFF);
        Some(bits)
    }
}

type Codes = [Option<u32>; OF_LAYOUT];

/// All columns of some rows.
#[derive(Default)]
pub struct Columns {
    pub all: [Column; COLUMNS.len()],
    dictionaries: [Dictionary; REPEATED.len()],
    /// By layout, the numbers of what its rows share; none if they were not seen yet.
    codes: Vec<Option<Codes>>,
}

impl Columns {
    fn restart(&mut self, layouts: usize) {
        for (number, column) in self.all.iter_mut().enumerate() {
            column.restart(!NUMBERS.contains(&number) && !REPEATED.contains(&number));
        }
        self.dictionaries.iter_mut().for_each(Dictionary::restart);
        self.codes.clear();
        self.codes.resize(layouts, None);
    }

    /// The values of a column, if its rows have numbers of them.
    pub fn dictionary(&self, column: usize) -> Option<&Dictionary> {
        let place = REPEATED.iter().position(|&number| number == column)?;
        Some(&self.dictionaries[place])
    }

    fn push_repeated(&mut self, place: usize, value: Option<&[u8]>) {
        let code = value.map(|value| self.dictionaries[place].code(value));
        self.all[REPEATED[place]].push_code(code);
    }

    /// Push what the rows of a layout share.
    fn push_shared(&mut self, number: usize, layout: &Layout) {
        let codes = self.codes[number].unwrap_or_else(|| {
            let shared = layout.names.iter().map(Option::as_deref).chain([Some(&*layout.shard)]);
            let mut codes = Codes::default();
            for ((code, value), dictionary) in codes.iter_mut().zip(shared).zip(&mut self.dictionaries) {
                *code = value.map(|value| dictionary.code(value));
            }
            codes
        });
        self.codes[number] = Some(codes);
        for (column, code) in REPEATED.into_iter().zip(codes) {
            self.all[column].push_code(code);
        }
    }
}

/// Rows of a scan and finished rows, in the order of their tokens.
pub struct Merge<'a> {
    scan: &'a Scan,
    kinds: &'a Kinds,
    ends: &'a Ends,
    images: &'a [Option<&'a [u8]>],
    memories: Vec<&'a [u8]>,
    finished: &'a [Finished<'a>],
    order: Vec<u32>,
}

/// A column has more bytes than its offsets have room for.
pub struct TooLarge;

impl<'a> Merge<'a> {
    /// ``times`` has the cluster times of the finished rows, and ``images`` the documents before changes.
    pub fn new(
        scan: &'a Scan,
        kinds: &'a Kinds,
        ends: &'a Ends,
        images: &'a [Option<&'a [u8]>],
        memories: Vec<&'a [u8]>,
        finished: &'a [Finished<'a>],
        times: &'a [u8],
    ) -> Self {
        let own = scan.rows.iter().map(|row| (row.time, u64::from(row.index)));
        let indexes = &finished[INDEX];
        let others = (0..times.len() / 8)
            .map(|row| (long(times, row) as u64, indexes.number(row).unwrap_or(0) as u64));
        let mut keys: Vec<(u64, u64, u32)> =
            own.chain(others).enumerate().map(|(id, (time, index))| (time, index, id as u32)).collect();
        keys.sort_by_key(|&(time, index, _)| (time, index));
        let order = keys.iter().map(|key| key.2).collect();
        let mut merge = Merge { scan, kinds, ends, images, memories, finished, order };
        let mut start = 0;
        for run in keys.chunk_by(|one, other| (one.0, one.1) == (other.0, other.1)) {
            if run.len() > 1 {
                let mut tied: Vec<(Vec<u8>, u32)> =
                    run.iter().map(|&(_, _, id)| (merge.token(id), id)).collect();
                tied.sort_by(|one, other| one.0.cmp(&other.0));
                for (place, (_, id)) in merge.order[start..].iter_mut().zip(tied) {
                    *place = id;
                }
            }
            start += run.len();
        }
        merge
    }

    pub fn len(&self) -> usize {
        self.order.len()
    }

    fn layout(&self, row: &Row) -> Option<&'a Layout> {
        if row.end_session.is_some() {
            return self.ends.all_layouts.get(row.kind as usize);
        }
        self.kinds.all[row.kind as usize].layouts[usize::from(row.shows_session)].as_ref()
    }

    /// A number of its own for each layout: those of kinds, and then those of ends.
    fn layout_number(&self, row: &Row) -> usize {
        let of_kinds = 2 * self.kinds.all.len();
        match row.end_session {
            Some(_) => of_kinds + row.kind as usize,
            None => 2 * row.kind as usize + usize::from(row.shows_session),
        }
    }

    fn token(&self, id: u32) -> Vec<u8> {
        let mut out = Vec::new();
        match self.scan.rows.get(id as usize) {
            Some(row) => {
                if let Some(layout) = self.layout(row) {
                    self.push(&layout.token, row, &mut out);
                }
            }
            None => {
                let row = id as usize - self.scan.rows.len();
                out.extend_from_slice(self.finished[TOKEN].bytes(row).unwrap_or_default());
            }
        }
        out
    }

    fn push(&self, template: &Template, row: &Row, out: &mut Vec<u8>) {
        let session = row.end_session.map(|session| &*self.ends.all_sessions[session as usize].middle);
        let sources = Sources {
            memory: self.memories[row.memory as usize],
            descriptions: &self.scan.descriptions,
            session: session.unwrap_or_default(),
        };
        template.push(row, &sources, out);
    }

    fn push_document(&self, template: &Template, row: &Row, out: &mut Vec<u8>) {
        let frame = out.len();
        out.extend_from_slice(&[0; 4]);
        self.push(template, row, out);
        out.push(0);
        close(out, frame);
    }

    /// Write all columns, row by row: the bytes of an entry are near while they are needed.
    ///
    /// ``put`` is given the number of a column, the place of some bytes in it, and the bytes.
    pub fn write<E: From<TooLarge>>(
        &self,
        columns: &mut Columns,
        mut put: impl FnMut(usize, usize, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        columns.restart(2 * self.kinds.all.len() + self.ends.all_layouts.len());
        let mut left = self.len();
        for rows in self.order.chunks(ROWS_AT_ONCE) {
            left -= rows.len();
            self.touch(rows);
            for &id in rows {
                match self.scan.rows.get(id as usize) {
                    Some(row) => self.write_row(row, id as usize, columns),
                    None => self.write_finished(id as usize - self.scan.rows.len(), columns),
                }
            }
            for (number, column) in columns.all.iter_mut().enumerate() {
                if column.put + column.data.len() > MOST_BYTES {
                    return Err(TooLarge.into());
                }
                if column.data.len() >= BYTES_AT_ONCE || left == 0 {
                    put(number, column.put, &column.data)?;
                    column.put += column.data.len();
                    column.data.clear();
                }
            }
        }
        Ok(())
    }

    /// Read a byte of each line of the processor's cache that rows are made of.
    ///
    /// Nothing waits for these bytes, so they are fetched from memory many at a time.
    fn touch(&self, rows: &[u32]) {
        let mut seen = 0;
        for row in rows.iter().filter_map(|&id| self.scan.rows.get(id as usize)) {
            let memory = self.memories[row.memory as usize];
            for part in [row.key, row.o, row.lsid] {
                let bytes = part.of(memory);
                let near = &bytes[..bytes.len().min(MOST_TOUCHED)];
                seen ^= near.iter().step_by(CACHE_LINE).fold(0, |found, byte| found ^ byte);
            }
        }
        std::hint::black_box(seen);
    }

    fn write_row(&self, row: &Row, number: usize, made: &mut Columns) {
        let Some(layout) = self.layout(row) else {
            return; // `Scan::settle` has dropped such rows
        };
        made.push_shared(self.layout_number(row), layout);
        let columns = &mut made.all;
        let memory = self.memories[row.memory as usize];
        self.push(&layout.token, row, &mut columns[TOKEN].data);
        columns[TOKEN].end_value(true);
        let session = row.end_session.map(|session| &self.ends.all_sessions[session as usize]);
        columns[TYPE_BITS].push_bytes(session.and_then(|session| session.type_bits.as_deref()));
        columns[CLUSTER_TIME].push_number(Some((row.time >> 32) as i64 * SECOND));
        columns[INCREMENT].push_number(Some((row.time & 0xFFFF_FFFF) as i64));
        columns[WALL].push_number(Some(row.wall * MICROSECONDS));
        if session.is_none() {
            row.form.push_text(row.key.of(memory), &mut columns[DOCUMENT_KEY].data);
        }
        columns[DOCUMENT_KEY].end_value(session.is_none());
        self.push_document(&layout.event, row, &mut columns[EVENT].data);
        columns[EVENT].end_value(true);
        columns[PRE_IMAGE].push_bytes(self.images.get(number).copied().flatten());
        columns[INDEX].push_number(row.is_inside.then_some(i64::from(row.index)));
        if let Some(rest) = &layout.rest {
            self.push_document(rest, row, &mut columns[REST].data);
        }
        columns[REST].end_value(layout.rest.is_some());
        columns[NUMBER].push_number((row.has_number && !row.is_inside).then_some(row.number));
        let has_session = !row.is_inside && row.lsid.is_there();
        made.push_repeated(OF_SESSION, has_session.then(|| row.lsid.of(memory)));
    }

    fn write_finished(&self, row: usize, columns: &mut Columns) {
        for (number, column) in columns.all.iter_mut().enumerate() {
            if NUMBERS.contains(&number) {
                column.push_number(self.finished[number].number(row));
            } else if !REPEATED.contains(&number) {
                column.push_bytes(self.finished[number].bytes(row));
            }
        }
        for (place, number) in REPEATED.into_iter().enumerate() {
            columns.push_repeated(place, self.finished[number].bytes(row));
        }
    }
}

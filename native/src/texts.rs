//! Fields of documents, found by their names: where they are, or their text.

use crate::bson::{self, Fields};
use crate::json::{Json, string};

const NULL: u8 = 0x0a;
const UNDEFINED: u8 = 0x06;

/// One field of all rows.
pub struct Field {
    name: Vec<u8>,
    word: u64,
    /// The types of the values; 0 where a row has none
    pub kinds: Vec<u8>,
    /// Where they begin and end
    pub starts: Vec<u8>,
    pub ends: Vec<u8>,
    pub texts: Option<Texts>,
}

/// Values as text: strings as they are, documents and timestamps as Extended JSON.
pub struct Texts {
    json: Json,
    pub ends: Vec<u8>,
    /// The rows whose values are left to the reference
    pub left: Vec<u8>,
}

impl Texts {
    fn new() -> Self {
        Texts { json: Json::default(), ends: vec![0; 4], left: Vec::new() }
    }

    pub fn data(&self) -> &[u8] {
        &self.json.text
    }

    /// Add the value of a row; `None` if there is too much text for one column.
    fn add(&mut self, memory: &[u8], row: usize, kind: u8, start: usize, end: usize) -> Option<()> {
        let before = self.json.text.len();
        if kind != 0 && self.write(memory, kind, start, end).is_none() {
            self.json.text.truncate(before);
            self.left.extend_from_slice(&(row as i64).to_le_bytes());
        }
        self.ends.extend_from_slice(&i32::try_from(self.json.text.len()).ok()?.to_le_bytes());
        Some(())
    }

    fn write(&mut self, memory: &[u8], kind: u8, start: usize, end: usize) -> Option<()> {
        match kind {
            bson::STRING => {
                let text = string(memory.get(start..end)?)?;
                std::str::from_utf8(text).ok()?;
                self.json.text.extend_from_slice(text);
                Some(())
            }
            bson::DOCUMENT => self.json.document(memory, start, end),
            bson::TIMESTAMP => self.json.timestamp(memory, start),
            _ => None,
        }
    }
}

impl Field {
    pub fn new(name: &[u8], has_texts: bool) -> Self {
        let texts = has_texts.then(Texts::new);
        let (kinds, starts, ends) = Default::default();
        Field { name: name.to_vec(), word: bson::word(name), kinds, starts, ends, texts }
    }

    fn put(&mut self, kind: u8, start: usize, end: usize) {
        self.kinds.push(kind);
        self.starts.extend_from_slice(&(start as i64).to_le_bytes());
        self.ends.extend_from_slice(&(end as i64).to_le_bytes());
    }
}

/// Why fields cannot be found together.
pub enum Uneven {
    /// A document is damaged, or has a field twice, or one that is not expected.
    Document,
    /// A column has more text than it can hold.
    TooLarge,
}

/// Find fields of documents, which are given by their places; a row without a document begins before 0.
///
/// Other fields are passed over; if there are names in ``ignored``, only these.
pub fn find(
    memory: &[u8],
    starts: &[i64],
    ends: &[i64],
    fields: &mut [Field],
    ignored: Option<&[Vec<u8>]>,
) -> Result<(), Uneven> {
    for (row, (&start, &end)) in starts.iter().zip(ends).enumerate() {
        if start >= 0 {
            read(memory, row, start, end, fields, ignored).ok_or(Uneven::Document)?;
        }
        for field in fields.iter_mut() {
            if field.kinds.len() == row {
                field.put(0, 0, 0);
            }
            if let Some(texts) = &mut field.texts {
                let place = 8 * row;
                let kind = field.kinds[row];
                let start = bson::int64(&field.starts, place).unwrap_or(0) as usize;
                let end = bson::int64(&field.ends, place).unwrap_or(0) as usize;
                texts.add(memory, row, kind, start, end).ok_or(Uneven::TooLarge)?;
            }
        }
    }
    Ok(())
}

fn read(
    memory: &[u8],
    row: usize,
    start: i64,
    end: i64,
    fields: &mut [Field],
    ignored: Option<&[Vec<u8>]>,
) -> Option<()> {
    let (start, end) = (usize::try_from(start).ok()?, usize::try_from(end).ok()?);
    if usize::try_from(bson::int32(memory, start)?).ok()? != end.checked_sub(start)? {
        return None;
    }
    let mut elements = Fields::new(memory, start, end)?;
    while !elements.is_over() {
        let element = elements.step()?;
        let found = fields.iter_mut().find(|field| field.word == element.word && field.name == element.name);
        match found {
            Some(field) if field.kinds.len() > row => return None,
            Some(field) => {
                let is_nothing = matches!(element.kind, NULL | UNDEFINED);
                let kind = if is_nothing { 0 } else { element.kind };
                field.put(kind, element.value.start, element.value.end);
            }
            None if ignored.is_some_and(|names| !names.iter().any(|name| name == element.name)) => {
                return None;
            }
            None => {}
        }
    }
    Some(())
}

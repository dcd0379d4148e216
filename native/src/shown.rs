//! Events as a stream shows them, made of the rows of a history: `pipeline/streams/event_block.py`.

use crate::bson;

/// A column of bytes: values are between offsets.
pub struct Column {
    pub offsets: Vec<i32>,
    pub data: Vec<u8>,
}

impl Column {
    fn value(&self, row: usize) -> Option<&[u8]> {
        let start = usize::try_from(*self.offsets.get(row)?).ok()?;
        let end = usize::try_from(*self.offsets.get(row.checked_add(1)?)?).ok()?;
        self.data.get(start..end)
    }
}

/// How the tokens of a kind are rewritten: what is around time, index and key, stored and shown.
pub struct Rewriter {
    pub stored: [Vec<u8>; 4],
    pub shown: [Vec<u8>; 4],
    /// The length of an index by its first two digits
    pub index_sizes: Vec<([u8; 2], usize)>,
}

/// How the events of a kind are shown.
pub struct Writer {
    pub lead: Vec<u8>,
    /// What is cut out of a stored event
    pub cut: (usize, usize),
    /// How to find the description of an update that loses its last field
    pub jumps: Option<Vec<usize>>,
    pub rewriter: Option<Rewriter>,
}

/// What all events share.
pub struct Shared {
    /// What comes before an empty token in its document: it begins and ends with a size.
    pub token_lead: Vec<u8>,
    pub token_end: Vec<u8>,
    /// The last field of descriptions, and their end
    pub no_paths: Vec<u8>,
}

/// Tokens and events, one after the other, and where each ends.
#[derive(Default)]
pub struct Shown {
    pub tokens: Vec<u8>,
    pub token_ends: Vec<u8>,
    pub events: Vec<u8>,
    pub event_ends: Vec<u8>,
    /// The places of rows that are unusual, and not shown here
    pub left: Vec<u8>,
}

const TIME_DIGITS: usize = 16;

impl Shown {
    /// Add the event of a row; `None` if it is unusual.
    pub fn add(&mut self, shared: &Shared, writer: &Writer, token: &[u8], stored: &[u8]) -> Option<()> {
        let before = self.tokens.len();
        match &writer.rewriter {
            None => self.tokens.extend_from_slice(token),
            Some(rewriter) => self.rewritten(rewriter, token)?,
        }
        self.event(shared, writer, before, stored)
    }

    fn rewritten(&mut self, rewriter: &Rewriter, token: &[u8]) -> Option<()> {
        let [first, second, third, last] = &rewriter.stored;
        let time = first.len();
        let index = time + TIME_DIGITS + second.len();
        let digits = token.get(index..index + 2)?;
        let (_, size) = rewriter.index_sizes.iter().find(|(begin, _)| begin == digits)?;
        let key = index + size + third.len();
        let values = [
            token.get(time..time + TIME_DIGITS)?,
            token.get(index..index + size)?,
            token.get(key..token.len().checked_sub(last.len())?)?,
        ];
        self.tokens.extend_from_slice(&rewriter.shown[0]);
        for (value, fixed) in values.iter().zip(&rewriter.shown[1..]) {
            self.tokens.extend_from_slice(value);
            self.tokens.extend_from_slice(fixed);
        }
        Some(())
    }

    /// Write the event whose token begins at some place of the tokens.
    fn event(&mut self, shared: &Shared, writer: &Writer, token: usize, stored: &[u8]) -> Option<()> {
        let token = self.tokens.get(token..)?;
        let events = &mut self.events;
        let begin = events.len();
        events.extend_from_slice(&[0; 4]);
        events.extend_from_slice(&writer.lead);
        let lead = &shared.token_lead;
        let (size, rest) = lead.split_first_chunk::<4>()?;
        let (middle, length) = rest.split_last_chunk::<4>()?;
        let more = i32::try_from(token.len()).ok()?;
        events.extend_from_slice(&i32::from_le_bytes(*size).checked_add(more)?.to_le_bytes());
        events.extend_from_slice(middle);
        events.extend_from_slice(&i32::from_le_bytes(*length).checked_add(more)?.to_le_bytes());
        events.extend_from_slice(token);
        events.extend_from_slice(&shared.token_end);
        let (start, stop) = writer.cut;
        events.extend_from_slice(stored.get(4..start)?);
        match &writer.jumps {
            None => events.extend_from_slice(stored.get(stop..)?),
            Some(jumps) => {
                let (first, others) = jumps.split_first()?;
                let mut place = *first;
                for jump in others {
                    let size = usize::try_from(bson::int32(stored, place)?).ok()?;
                    place = place.checked_add(size)?.checked_add(*jump)?;
                }
                let tail = stored.len().checked_sub(1 + shared.no_paths.len())?;
                if !bson::has_at(stored, tail, &shared.no_paths) {
                    return None;
                }
                events.extend_from_slice(stored.get(stop..place)?);
                let size = i32::try_from(tail.checked_sub(place)?.checked_add(1)?).ok()?;
                events.extend_from_slice(&size.to_le_bytes());
                events.extend_from_slice(stored.get(place.checked_add(4)?..tail)?);
                events.extend_from_slice(b"\0\0");
            }
        }
        let size = i32::try_from(events.len() - begin).ok()?;
        events.get_mut(begin..begin + 4)?.copy_from_slice(&size.to_le_bytes());
        Some(())
    }
}

/// Show rows of a history, each by the writer of its kind; `None` if they are too large for one column.
pub fn show(
    shared: &Shared,
    tokens: &Column,
    events: &Column,
    rows: &[i64],
    kinds: &[i64],
    writers: &[Writer],
) -> Option<Shown> {
    let mut shown = Shown::default();
    shown.tokens.reserve(tokens.data.len());
    shown.events.reserve(tokens.data.len() + events.data.len());
    shown.token_ends.extend_from_slice(&[0; 4]);
    shown.event_ends.extend_from_slice(&[0; 4]);
    for (place, (&row, &kind)) in rows.iter().zip(kinds).enumerate() {
        let (token_end, event_end) = (shown.tokens.len(), shown.events.len());
        let mut take = || {
            let row = usize::try_from(row).ok()?;
            let writer = writers.get(usize::try_from(kind).ok()?)?;
            shown.add(shared, writer, tokens.value(row)?, events.value(row)?)
        };
        if take().is_some() {
            shown.token_ends.extend_from_slice(&i32::try_from(shown.tokens.len()).ok()?.to_le_bytes());
            shown.event_ends.extend_from_slice(&i32::try_from(shown.events.len()).ok()?.to_le_bytes());
        } else {
            shown.tokens.truncate(token_end);
            shown.events.truncate(event_end);
            shown.left.extend_from_slice(&(place as i64).to_le_bytes());
        }
    }
    Some(shown)
}

//! The entries at the beginning of a part of a file.

use crate::bson;
use crate::envelope::Envelope;

const LARGEST: usize = 16 * 1024 * 1024 + 16 * 1024;
/// Where the fields that end an entry without a session are, counted from its end.
const TAIL: [(usize, &[u8]); 4] =
    [(49, b"\x11ts\0"), (37, b"\x12t\0"), (26, b"\x12v\0"), (15, b"\x09wall\0")];
const TAIL_SIZE: usize = 49;
const TIME: usize = 45;
/// What a retryable write has after these fields.
const PREVIOUS_LEAD: &[u8] = b"\x03prevOpTime\0\x1c\0\0\0";
const PREVIOUS_SIZE: usize = 40;

/// Where whole documents end, up to the first that is none; and their cluster times, 0 where none was found.
pub fn split(memory: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut ends, mut times) = (Vec::new(), Vec::new());
    let mut start = 0;
    while let Some(end) = end_of(memory, start) {
        ends.extend_from_slice(&(end as i64).to_le_bytes());
        times.extend_from_slice(&time_of(memory, start, end).unwrap_or(0).to_le_bytes());
        start = end;
    }
    (ends, times)
}

fn end_of(memory: &[u8], start: usize) -> Option<usize> {
    let size = usize::try_from(bson::int32(memory, start)?).ok()?;
    let end = start + size;
    ((5..=LARGEST).contains(&size) && memory.get(end - 1) == Some(&0)).then_some(end)
}

fn time_of(memory: &[u8], start: usize, end: usize) -> Option<i64> {
    let is_retryable = end > PREVIOUS_SIZE && bson::has_at(memory, end - PREVIOUS_SIZE - 1, PREVIOUS_LEAD);
    let stop = if is_retryable { end - PREVIOUS_SIZE } else { end };
    let has_tail =
        stop > start + TAIL_SIZE && TAIL.iter().all(|&(back, lead)| bson::has_at(memory, stop - back, lead));
    let place = if has_tail { stop - TIME } else { Envelope::read(memory, start, end)?.ts? };
    bson::int64(memory, place)
}

//! From a `$v: 2` diff to the `updateDescription` of an event, with an empty `disambiguatedPaths`.
//!
//! A diff with a path that needs disambiguation, with a binary patch, or with anything unusual is left to the
//! reference, `events/update_diff/description.py`.

use crate::bson::{self, Element, Fields, Span};

const UPDATED: &[u8] = b"\x03updatedFields\0";
const REMOVED: &[u8] = b"\x04removedFields\0";
const TRUNCATED: &[u8] = b"\x04truncatedArrays\0";
const NO_PATHS: &[u8] = b"\x03disambiguatedPaths\0\x05\0\0\0\0\0";
const MOST_LEVELS: usize = 60;

/// Describes diffs; what it holds between two of them is memory.
#[derive(Default)]
pub struct Describer {
    prefix: Vec<u8>,
    removed: Vec<u8>,
    truncated: Vec<u8>,
    removed_count: usize,
    truncated_count: usize,
}

impl Describer {
    /// Append the description of a diff to ``out``; `None` if the reference has to do it, and ``out`` is as before.
    pub fn describe(&mut self, memory: &[u8], diff: Span, out: &mut Vec<u8>) -> Option<()> {
        self.prefix.clear();
        self.removed.clear();
        self.truncated.clear();
        self.removed_count = 0;
        self.truncated_count = 0;
        let before = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(UPDATED);
        let frame = out.len();
        out.extend_from_slice(&[0; 4]);
        if self.document(memory, diff, 0, out).is_none() {
            out.truncate(before);
            return None;
        }
        out.push(0);
        close(out, frame);
        for (lead, elements) in [(REMOVED, &self.removed), (TRUNCATED, &self.truncated)] {
            out.extend_from_slice(lead);
            out.extend_from_slice(&(elements.len() as i32 + 5).to_le_bytes());
            out.extend_from_slice(elements);
            out.push(0);
        }
        out.extend_from_slice(NO_PATHS);
        close(out, before);
        Some(())
    }

    /// One level of a document's diff. The prefix is empty at the top level and ends with a dot below it.
    fn document(&mut self, memory: &[u8], diff: Span, level: usize, out: &mut Vec<u8>) -> Option<()> {
        let mut fields = Fields::new(memory, diff.start, diff.end)?;
        if fields.is_over() || level > MOST_LEVELS {
            return None;
        }
        let mut last = 0;
        while !fields.is_over() {
            let field = fields.step()?;
            let order = match field.name {
                b"d" => 1,
                b"u" => 2,
                b"i" => 3,
                [b's', ..] => 4,
                _ => return None,
            };
            if field.kind != bson::DOCUMENT || order < last || (order == last && order != 4) {
                return None;
            }
            match order {
                1 => self.remove(memory, field.value, level)?,
                4 => self.sub_diff(memory, &field, level, out)?,
                _ => self.values(memory, field.value, level, out)?,
            }
            last = order;
        }
        Some(())
    }

    fn values(&mut self, memory: &[u8], section: Span, level: usize, out: &mut Vec<u8>) -> Option<()> {
        let mut fields = Fields::new(memory, section.start, section.end)?;
        while !fields.is_over() {
            let field = fields.step()?;
            check_name(field.name, level)?;
            if level > 0 {
                out.push(field.kind);
                out.extend_from_slice(&self.prefix);
                out.extend_from_slice(memory.get(field.at + 1..field.value.end)?);
            }
        }
        if level == 0 {
            out.extend_from_slice(memory.get(section.start + 4..section.end - 1)?);
        }
        Some(())
    }

    fn remove(&mut self, memory: &[u8], section: Span, level: usize) -> Option<()> {
        let mut fields = Fields::new(memory, section.start, section.end)?;
        while !fields.is_over() {
            let field = fields.step()?;
            check_name(field.name, level)?;
            let size = self.prefix.len() + field.name.len() + 1;
            let removed = &mut self.removed;
            removed.push(bson::STRING);
            push_number(removed, self.removed_count);
            removed.push(0);
            removed.extend_from_slice(&(size as i32).to_le_bytes());
            removed.extend_from_slice(&self.prefix);
            removed.extend_from_slice(field.name);
            removed.push(0);
            self.removed_count += 1;
        }
        Some(())
    }

    fn sub_diff(&mut self, memory: &[u8], field: &Element, level: usize, out: &mut Vec<u8>) -> Option<()> {
        let name = field.name.get(1..)?;
        check_name(name, level)?;
        let before = self.prefix.len();
        self.prefix.extend_from_slice(name);
        let done = self.below(memory, field.value, level, out);
        self.prefix.truncate(before);
        done
    }

    /// The diff of what the prefix names, which has no dot at its end here.
    fn below(&mut self, memory: &[u8], diff: Span, level: usize, out: &mut Vec<u8>) -> Option<()> {
        if bson::has_at(memory, diff.start + 5, b"a\0") {
            return self.array(memory, diff, level + 1, out);
        }
        self.prefix.push(b'.');
        self.document(memory, diff, level + 1, out)
    }

    fn array(&mut self, memory: &[u8], diff: Span, level: usize, out: &mut Vec<u8>) -> Option<()> {
        let mut fields = Fields::new(memory, diff.start, diff.end)?;
        let header = fields.step()?;
        let is_true = header.kind == bson::BOOL && memory.get(header.value.start) == Some(&1);
        if !is_true || level > MOST_LEVELS {
            return None;
        }
        let mut is_second = true;
        while !fields.is_over() {
            let field = fields.step()?;
            if is_second && field.name == b"l" {
                let length = bson::int32(memory, field.value.start)?;
                if field.kind != bson::INT32 || length < 0 {
                    return None;
                }
                self.truncate(length);
                is_second = false;
                continue;
            }
            is_second = false;
            let (&letter, digits) = field.name.split_first()?;
            let is_index = matches!(digits.len(), 1..=9)
                && digits.iter().all(u8::is_ascii_digit)
                && (digits[0] != b'0' || digits.len() == 1);
            if !is_index {
                return None;
            }
            let before = self.prefix.len();
            self.prefix.push(b'.');
            self.prefix.extend_from_slice(digits);
            let done = match letter {
                b'u' => {
                    out.push(field.kind);
                    out.extend_from_slice(&self.prefix);
                    out.push(0);
                    out.extend_from_slice(field.value.of(memory)?);
                    Some(())
                }
                b's' if field.kind == bson::DOCUMENT => self.below(memory, field.value, level, out),
                _ => None,
            };
            self.prefix.truncate(before);
            done?;
        }
        Some(())
    }

    fn truncate(&mut self, length: i32) {
        let out = &mut self.truncated;
        out.push(bson::DOCUMENT);
        push_number(out, self.truncated_count);
        out.push(0);
        let frame = out.len();
        out.extend_from_slice(b"\0\0\0\0\x02field\0");
        out.extend_from_slice(&(self.prefix.len() as i32 + 1).to_le_bytes());
        out.extend_from_slice(&self.prefix);
        out.extend_from_slice(b"\0\x10newSize\0");
        out.extend_from_slice(&length.to_le_bytes());
        out.push(0);
        close(out, frame);
        self.truncated_count += 1;
    }
}

/// `None` if a path through a field of this name is ambiguous, or may be.
fn check_name(name: &[u8], level: usize) -> Option<()> {
    let is_number = level > 0 && !name.is_empty() && name.iter().all(u8::is_ascii_digit);
    (!is_number && !name.contains(&b'.')).then_some(())
}

/// Write the size of what began at ``frame``.
pub fn close(out: &mut [u8], frame: usize) {
    let size = (out.len() - frame) as i32;
    out[frame..frame + 4].copy_from_slice(&size.to_le_bytes());
}

pub fn push_number(out: &mut Vec<u8>, number: usize) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

//! Canonical Extended JSON, the text that the reference writes (`bson/extjson.py`).

use crate::bson::{self, Element, Fields};
use std::fmt::Write;

/// Documents that are nested deeper are left to the reference.
const MOST_LEVELS: usize = 64;
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const HEX: &[u8; 16] = b"0123456789abcdef";
const OLD_BINARY: u8 = 2;

/// Writes texts one after the other; after a `None` the text is not whole.
#[derive(Default)]
pub struct Json {
    pub text: Vec<u8>,
    digits: String,
}

impl Json {
    /// Write the document that begins at ``start`` and has to end at ``end``.
    pub fn document(&mut self, memory: &[u8], start: usize, end: usize) -> Option<()> {
        self.nested(memory, start, end, true, MOST_LEVELS)
    }

    fn nested(
        &mut self,
        memory: &[u8],
        start: usize,
        end: usize,
        has_names: bool,
        levels: usize,
    ) -> Option<()> {
        let levels = levels.checked_sub(1)?;
        let mut fields = Fields::new(memory, start, end)?;
        if usize::try_from(bson::int32(memory, start)?).ok()? != end.checked_sub(start)? {
            return None;
        }
        self.text.push(if has_names { b'{' } else { b'[' });
        let mut separator: &[u8] = b"";
        while !fields.is_over() {
            let field = fields.step()?;
            self.text.extend_from_slice(separator);
            separator = b", ";
            if has_names {
                self.quoted(field.name)?;
                self.text.extend_from_slice(b": ");
            } else {
                // The reference reads names of array items, too.
                std::str::from_utf8(field.name).ok()?;
            }
            match field.kind {
                bson::DOCUMENT | bson::ARRAY => {
                    let is_document = field.kind == bson::DOCUMENT;
                    self.nested(memory, field.value.start, field.value.end, is_document, levels)?;
                }
                _ => self.scalar(memory, &field)?,
            }
        }
        self.text.push(if has_names { b'}' } else { b']' });
        Some(())
    }

    fn scalar(&mut self, memory: &[u8], field: &Element) -> Option<()> {
        let value = field.value.of(memory)?;
        let at = field.value.start;
        match field.kind {
            bson::STRING => self.quoted(string(value)?)?,
            bson::INT32 => self.wrapped(b"$numberInt", bson::int32(memory, at)?)?,
            bson::INT64 => self.wrapped(b"$numberLong", bson::int64(memory, at)?)?,
            0x01 => {
                self.text.extend_from_slice(b"{\"$numberDouble\": \"");
                self.double(f64::from_le_bytes(value.try_into().ok()?))?;
                self.text.extend_from_slice(b"\"}");
            }
            bson::OBJECT_ID => {
                self.text.extend_from_slice(b"{\"$oid\": \"");
                self.hex(value);
                self.text.extend_from_slice(b"\"}");
            }
            bson::BOOL => self.text.extend_from_slice(if value == [0] { b"false" } else { b"true" }),
            bson::DATE => {
                self.text.extend_from_slice(b"{\"$date\": ");
                self.wrapped(b"$numberLong", bson::int64(memory, at)?)?;
                self.text.push(b'}');
            }
            bson::TIMESTAMP => self.timestamp(memory, at)?,
            bson::BINARY => self.binary(value)?,
            0x0a => self.text.extend_from_slice(b"null"),
            _ => return None,
        }
        Some(())
    }

    /// The timestamp at ``at``.
    pub fn timestamp(&mut self, memory: &[u8], at: usize) -> Option<()> {
        let (increment, seconds) = (bson::int32(memory, at)? as u32, bson::int32(memory, at + 4)? as u32);
        self.text.extend_from_slice(b"{\"$timestamp\": {\"t\": ");
        self.number(seconds)?;
        self.text.extend_from_slice(b", \"i\": ");
        self.number(increment)?;
        self.text.extend_from_slice(b"}}");
        Some(())
    }

    fn wrapped(&mut self, name: &[u8], number: impl std::fmt::Display) -> Option<()> {
        self.text.extend_from_slice(b"{\"");
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(b"\": \"");
        self.number(number)?;
        self.text.extend_from_slice(b"\"}");
        Some(())
    }

    fn number(&mut self, number: impl std::fmt::Display) -> Option<()> {
        self.digits.clear();
        write!(self.digits, "{number}").ok()?;
        self.text.extend_from_slice(self.digits.as_bytes());
        Some(())
    }

    /// As Python shows it: with the fewest digits, and an exponent if it is below -4 or above 15.
    fn double(&mut self, number: f64) -> Option<()> {
        if !number.is_finite() {
            let name: &[u8] = if number.is_nan() {
                b"NaN"
            } else if number > 0.0 {
                b"Infinity"
            } else {
                b"-Infinity"
            };
            self.text.extend_from_slice(name);
            return Some(());
        }
        self.shortest(number)?;
        let (digits, exponent) = self.digits.split_once('e')?;
        let exponent: i32 = exponent.parse().ok()?;
        let text = &mut self.text;
        let digits = digits.strip_prefix('-').inspect(|_| text.push(b'-')).unwrap_or(digits);
        let (first, others) = digits.split_once('.').unwrap_or((digits, ""));
        match exponent {
            0..=15 => {
                let whole = exponent as usize;
                text.extend_from_slice(first.as_bytes());
                text.extend_from_slice(&others.as_bytes()[..whole.min(others.len())]);
                text.extend(std::iter::repeat_n(b'0', whole.saturating_sub(others.len())));
                text.push(b'.');
                let rest = others.as_bytes().get(whole..).unwrap_or_default();
                text.extend_from_slice(if rest.is_empty() { b"0" } else { rest });
            }
            -4..=-1 => {
                text.extend_from_slice(b"0.");
                text.extend(std::iter::repeat_n(b'0', (-exponent - 1) as usize));
                text.extend_from_slice(first.as_bytes());
                text.extend_from_slice(others.as_bytes());
            }
            _ => {
                text.extend_from_slice(first.as_bytes());
                if !others.is_empty() {
                    text.push(b'.');
                    text.extend_from_slice(others.as_bytes());
                }
                let sign = if exponent < 0 { '-' } else { '+' };
                let shown = format!("e{sign}{:02}", exponent.abs());
                text.extend_from_slice(shown.as_bytes());
            }
        }
        Some(())
    }

    /// Set the fewest digits that name a number. Of two that are as near to it, Python takes the even ones.
    fn shortest(&mut self, number: f64) -> Option<()> {
        self.digits.clear();
        write!(self.digits, "{number:e}").ok()?;
        let place = self.digits.find('e')?;
        let last = self.digits.as_bytes()[place - 1];
        if last.is_multiple_of(2) {
            return Some(());
        }
        let decimals = self.digits[..place].split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let exponent: i32 = self.digits[place + 1..].parse().ok()?;
        if !is_between(number, decimals as i32 - exponent) {
            return Some(());
        }
        let mut even = self.digits.clone();
        even.replace_range(place - 1..place, char::from(last - 1).encode_utf8(&mut [0; 4]));
        if even.parse() == Ok(number) {
            self.digits = even;
        }
        Some(())
    }

    fn binary(&mut self, value: &[u8]) -> Option<()> {
        let (subtype, data) = value.get(4..)?.split_first()?;
        if *subtype == OLD_BINARY {
            return None;
        }
        self.text.extend_from_slice(b"{\"$binary\": {\"base64\": \"");
        for group in data.chunks(3) {
            let bytes = [group[0], *group.get(1).unwrap_or(&0), *group.get(2).unwrap_or(&0)];
            let bits = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]);
            for place in 0..4 {
                let is_there = place <= group.len();
                let digit = BASE64[(bits >> (18 - 6 * place)) as usize & 63];
                self.text.push(if is_there { digit } else { b'=' });
            }
        }
        self.text.extend_from_slice(b"\", \"subType\": \"");
        self.hex(&[*subtype]);
        self.text.extend_from_slice(b"\"}}");
        Some(())
    }

    fn hex(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.text.push(HEX[usize::from(byte >> 4)]);
            self.text.push(HEX[usize::from(byte & 15)]);
        }
    }

    fn quoted(&mut self, bytes: &[u8]) -> Option<()> {
        let is_plain = is_plain(bytes)?;
        self.text.push(b'"');
        let mut rest = bytes;
        while !is_plain && let Some(place) = rest.iter().position(|&byte| is_escaped(byte)) {
            let (plain, others) = rest.split_at(place);
            self.text.extend_from_slice(plain);
            self.escaped(others[0]);
            rest = &others[1..];
        }
        self.text.extend_from_slice(rest);
        self.text.push(b'"');
        Some(())
    }

    fn escaped(&mut self, byte: u8) {
        let short = match byte {
            b'"' | b'\\' => byte,
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x0c => b'f',
            0x08 => b'b',
            _ => {
                self.text.extend_from_slice(b"\\u00");
                self.hex(&[byte]);
                return;
            }
        };
        self.text.extend_from_slice(&[b'\\', short]);
    }
}

/// Whether twice a number, times a power of ten, is an odd integer: the number is between two with that many places.
fn is_between(number: f64, places: i32) -> bool {
    let bits = number.to_bits();
    let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
    let (digits, power) =
        if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) };
    let zeros = digits.trailing_zeros();
    if digits == 0 || power + zeros as i32 + places + 1 != 0 {
        return false;
    }
    // What is left of it is odd, and so is any power of five.
    places >= 0 || 5_u64.checked_pow(places.unsigned_abs()).is_some_and(|five| (digits >> zeros) % five == 0)
}

fn is_escaped(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Whether a text is written as it is; `None` if it is no UTF-8.
fn is_plain(bytes: &[u8]) -> Option<bool> {
    let (mut has_escaped, mut high) = (false, 0);
    for &byte in bytes {
        has_escaped |= is_escaped(byte);
        high |= byte;
    }
    if high >= 0x80 {
        std::str::from_utf8(bytes).ok()?;
    }
    Some(!has_escaped)
}

/// The bytes of a string without its size and its NUL.
pub fn string(value: &[u8]) -> Option<&[u8]> {
    let (end, text) = value.get(4..)?.split_last()?;
    (*end == 0).then_some(text)
}

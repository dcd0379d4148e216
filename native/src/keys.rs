//! Document keys of one `_id`: as a token has them, and as the column `document_key` does.

use crate::bson;
use crate::describe::push_number;

#[derive(Clone, Copy, PartialEq)]
pub enum KeyForm {
    ObjectId,
    Text,
    Int32,
    Uuid,
}

const VALUE: usize = 9;

impl KeyForm {
    /// The form of a key; `None` for one that is left to the reference.
    pub fn of(key: &[u8]) -> Option<KeyForm> {
        let size = bson::int32(key, 0)?;
        if size as usize != key.len() || key.last() != Some(&0) || !bson::has_at(key, 5, b"_id\0") {
            return None;
        }
        match key[4] {
            bson::OBJECT_ID if key.len() == 22 => Some(KeyForm::ObjectId),
            bson::INT32 if key.len() == 14 && bson::int32(key, VALUE)? >= 0 => Some(KeyForm::Int32),
            bson::STRING => {
                let length = bson::int32(key, VALUE)?;
                let is_plain = |&byte: &u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
                let has_size = i64::from(length) + 14 == key.len() as i64 && length >= 1;
                let is_text = has_size && key[key.len() - 2] == 0 && text_of(key).iter().all(is_plain);
                is_text.then_some(KeyForm::Text)
            }
            bson::BINARY if key.len() == 31 && bson::has_at(key, VALUE, b"\x10\0\0\0\x04") => {
                Some(KeyForm::Uuid)
            }
            _ => None,
        }
    }

    /// Append the digits of a key of this form.
    pub fn push_hex(self, key: &[u8], out: &mut Vec<u8>) {
        match self {
            KeyForm::ObjectId => {
                out.extend_from_slice(b"645F69640064");
                push_hex::<12>(&key[VALUE..21], out);
            }
            KeyForm::Text => {
                out.extend_from_slice(b"3C5F6964003C");
                text_of(key).iter().for_each(|&byte| out.extend_from_slice(&UPPER[byte as usize]));
                out.extend_from_slice(b"00");
            }
            KeyForm::Int32 => {
                out.extend_from_slice(b"1E5F696400");
                push_integer(int_of(key), out);
            }
            KeyForm::Uuid => {
                out.extend_from_slice(b"5A5F6964005A1004");
                push_hex::<16>(&key[14..30], out);
            }
        }
    }

    /// Append a key of this form as canonical Extended JSON.
    pub fn push_text(self, key: &[u8], out: &mut Vec<u8>) {
        match self {
            KeyForm::ObjectId => {
                out.extend_from_slice(b"{\"_id\": {\"$oid\": \"");
                let mut digits = [[0; 2]; 12];
                for (pair, &byte) in digits.iter_mut().zip(&key[VALUE..21]) {
                    *pair = LOWER[byte as usize];
                }
                out.extend_from_slice(digits.as_flattened());
                out.extend_from_slice(b"\"}}");
            }
            KeyForm::Text => {
                out.extend_from_slice(b"{\"_id\": \"");
                out.extend_from_slice(text_of(key));
                out.extend_from_slice(b"\"}");
            }
            KeyForm::Int32 => {
                out.extend_from_slice(b"{\"_id\": {\"$numberInt\": \"");
                push_number(out, int_of(key) as usize);
                out.extend_from_slice(b"\"}}");
            }
            KeyForm::Uuid => {
                out.extend_from_slice(b"{\"_id\": {\"$binary\": {\"base64\": \"");
                push_base64(&key[14..30], out);
                out.extend_from_slice(b"\", \"subType\": \"04\"}}}");
            }
        }
    }
}

fn text_of(key: &[u8]) -> &[u8] {
    &key[VALUE + 4..key.len() - 2]
}

fn int_of(key: &[u8]) -> u64 {
    bson::int32(key, VALUE).map_or(0, |value| value as u64)
}

const UPPER: [[u8; 2]; 256] = pairs(b"0123456789ABCDEF");
const LOWER: [[u8; 2]; 256] = pairs(b"0123456789abcdef");

const fn pairs(digits: &[u8; 16]) -> [[u8; 2]; 256] {
    let mut table = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    table
}

fn push_hex<const N: usize>(bytes: &[u8], out: &mut Vec<u8>) {
    let mut digits = [[0; 2]; N];
    for (pair, &byte) in digits.iter_mut().zip(bytes) {
        *pair = UPPER[byte as usize];
    }
    out.extend_from_slice(digits.as_flattened());
}

/// Append a cluster time as 16 digits.
pub fn push_time(time: u64, out: &mut Vec<u8>) {
    push_hex::<8>(&time.to_be_bytes(), out);
}

/// Append the KeyString of a whole number that is not negative.
pub fn push_integer(value: u64, out: &mut Vec<u8>) {
    if value == 0 {
        out.extend_from_slice(b"29");
        return;
    }
    let bytes = (value << 1).to_be_bytes();
    let first = bytes.iter().position(|&byte| byte != 0).unwrap_or(7);
    out.extend_from_slice(&UPPER[0x2A + 8 - first]);
    bytes[first..].iter().for_each(|&byte| out.extend_from_slice(&UPPER[byte as usize]));
}

fn push_base64(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in bytes.chunks(3) {
        let byte = |place: usize| u32::from(chunk.get(place).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= chunk.len() { digit } else { b'=' });
        }
    }
}

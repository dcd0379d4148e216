"""KeyString V1: bytes whose order is BSON order.

A KeyString is a sequence of values, each a type byte and a payload, ended by `END`. Comparing two of them as
bytes gives the BSON order of the values. Values that compare equal have equal bytes; the difference (``1`` or
``1.0``, symbol or string) is stored outside the key, in the type bits.

==================== ====================================================================================
`layout`             the type bytes and other constants of the format
`type_bits`          the bit stream: written while encoding, read while decoding
`numbers`            int and double to bytes
`decimals`           Decimal128 to bytes, and the exact arithmetic for both directions
`encoder`            BSON values to a key, a table keyed by BSON type
`reader`             a position in key bytes
`number_reader`      bytes to numbers of all four types
`decoder`            a key to BSON values, a table keyed by type byte
==================== ====================================================================================

>>> from tailrace.bson.documents import encode as bson
>>> key = encode(bson({"": 5, " ": "a"}))
>>> key.data.hex(), key.type_bits
('2b0a3c610004', b'')
>>> [kind for kind, value in decode(key.data)]
[16, 2]
"""

from tailrace.bson.keystring.decoder import decode, decode_prefix, decode_value
from tailrace.bson.keystring.encoder import KeyString, append_value, encode
from tailrace.bson.keystring.layout import END
from tailrace.bson.keystring.type_bits import NO_BITS, TypeBits, TypeBitsReader

__all__ = [
    "END",
    "NO_BITS",
    "KeyString",
    "TypeBits",
    "TypeBitsReader",
    "append_value",
    "decode",
    "decode_prefix",
    "decode_value",
    "encode",
]

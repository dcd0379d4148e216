"""Texts of the compiled kernel are those of the reference; what the reference refuses it leaves."""

import random
import struct
from itertools import pairwise

import bson
import numpy as np
import pytest

from tailrace.bson import documents, extjson
from tailrace.bson import raw as rawbson
from tailrace.errors import BsonError
from tailrace.lake.bulk.kernel import allocate, compiled_kernel
from tests.lake.test_kernel import SEEDS, damaged, needs_kernel
from tests.support.documents import DocumentMaker

_TAKEN = {
    "text": 'a"b\\c\n\r\t\x08\x0c\x00\x1f\x7fé日本', "é": [], "": {}, "of": [1, "two", [{}], None], "t": True,
    "binary": bson.Binary(b"12345", 5), "none": bson.Binary(b"", 0), "two": bson.Binary(b"12", 128),
    "at": bson.DatetimeMS(-5), "long": bson.Int64(-(1 << 63)), "when": bson.Timestamp(4294967295, 4294967295),
    "key": bson.ObjectId(bytes(range(12))), "int": -(1 << 31),
}  # fmt: skip


def texts(values: list[tuple[int, bytes]]) -> list[str | None]:
    """Values as the kernel writes them, by type and bytes; None for what it leaves.

    It refuses all documents if one is damaged outside of its values, so such a one has to be alone.
    """
    kernel = compiled_kernel()
    assert kernel is not None
    rows = [rawbson.document(rawbson.element(kind, b"value", value)) for kind, value in values]
    ends = np.cumsum([len(raw) for raw in rows])
    starts = ends - [len(raw) for raw in rows]
    memory = np.frombuffer(b"".join(rows), np.uint8)
    found = kernel.fields(memory, starts, ends, [(b"value", True)], None, allocate)
    if found is None:
        assert len(values) == 1
        return [None]
    ((_, begins, stops, shown),) = found
    assert shown is not None
    offsets, data, left = shown
    texts: list[str | None] = [
        data[start:end].to_pybytes().decode()
        for start, end in pairwise(np.frombuffer(offsets, np.int32).tolist())
    ]
    for (_, value), *place in zip(values, np.frombuffer(begins, int), np.frombuffer(stops, int), strict=True):
        assert memory[slice(*place)].tobytes() == value
    for row in np.frombuffer(left, np.int64).tolist():
        assert texts[row] == ""
        texts[row] = None
    return texts


def reference(raw: bytes) -> str | None:
    try:
        return extjson.dumps_canonical(raw)
    except BsonError:
        return None


def of_documents(raws: list[bytes]) -> list[str | None]:
    return texts([(rawbson.DOCUMENT, raw) for raw in raws])


@needs_kernel
def test_usual_documents_are_taken() -> None:
    raw = documents.encode(_TAKEN)
    deep = documents.encode({"a": {"b": {"c": [[{"d": 1}]]}}})
    assert of_documents([raw, deep]) == [extjson.dumps_canonical(raw), extjson.dumps_canonical(deep)]
    text = rawbson.INT32_LE.pack(3) + "é".encode() + b"\0"
    stamp = struct.pack("<II", 7, 5)
    shown = texts([(rawbson.STRING, text), (rawbson.NULL, b""), (rawbson.TIMESTAMP, stamp)])
    assert shown == ["é", "", '{"$timestamp": {"t": 5, "i": 7}}']


@needs_kernel
@pytest.mark.parametrize("seed", SEEDS)
def test_documents_of_all_types_are_equal_or_left(seed: int) -> None:
    rng = random.Random(seed)
    maker = DocumentMaker(rng)
    sound = [documents.encode(maker.document(depth=3)) for _ in range(500)]
    found = of_documents(sound)
    assert all(text in (None, extjson.dumps_canonical(raw)) for text, raw in zip(found, sound, strict=True))
    assert found.count(None) < len(found) / 2
    broken = [damaged(rng, raw) for raw in sound if len(raw) > 40]
    for raw in broken:
        if len(raw) != rawbson.INT32_LE.unpack_from(raw)[0]:
            continue  # it would be another value
        (text,) = of_documents([raw])
        assert text is None or text == reference(raw), (seed, raw)


@needs_kernel
@pytest.mark.parametrize("seed", SEEDS)
def test_doubles_have_the_digits_of_python(seed: int) -> None:
    rng = random.Random(seed)
    numbers = [float(f"{sign}{digit}e{power}") for sign in ("", "-") for digit in (1, 9.5, 1.234567)
               for power in range(-25, 26)]  # fmt: skip
    numbers += [2.0**power for power in range(-1074, 1024)] + [0.0, -0.0, 5e-324, 1.7976931348623157e308]
    numbers += [struct.unpack("<d", rng.randbytes(8))[0] for _ in range(3_000)]
    numbers += [rng.randrange(1 << 60) / rng.choice((1, 3, 10, 100, 1 << 53)) for _ in range(3_000)]
    raws = [documents.encode({"n": number}) for number in numbers]
    assert of_documents(raws) == [extjson.dumps_canonical(raw) for raw in raws], seed


@needs_kernel
def test_what_is_nested_too_deeply_is_left() -> None:
    raw = rawbson.EMPTY
    for _ in range(200):
        raw = rawbson.document(rawbson.element(rawbson.DOCUMENT, b"a", raw))
    assert of_documents([raw]) == [None]


@needs_kernel
def test_documents_that_have_to_be_read_one_by_one_are_refused() -> None:
    kernel = compiled_kernel()
    assert kernel is not None

    def finds(raw: bytes, ignored: list[bytes] | None = None, end: int | None = None) -> bool:
        memory = np.frombuffer(raw + b"\0\0\0\0", np.uint8)
        ends = np.array([len(raw) if end is None else end])
        return kernel.fields(memory, np.array([0]), ends, [(b"a", True)], ignored, allocate) is not None

    sound = documents.encode({"a": 1, "b": 2})
    assert finds(sound)
    assert finds(sound, [b"b", b"c"])
    assert not finds(sound, [b"c"])
    twice = rawbson.document(*[rawbson.element(rawbson.INT32, b"a", bytes(4))] * 2)
    assert not finds(twice)
    assert not any(finds(sound, end=end) for end in (0, 4, len(sound) - 1, len(sound) + 1, 1 << 40))
    assert not finds(sound[:-1] + b"\1")

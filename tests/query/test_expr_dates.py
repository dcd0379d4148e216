"""Date operators: parts, arithmetic over time zones and daylight saving, formatting and reading."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import DatetimeMS, Decimal128, Int64, ObjectId, Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.bson.values import Undefined
from tests.query.expr_helpers import assert_code, assert_value, evaluate


def at(text: str) -> DatetimeMS:
    """A date from ISO text."""
    moment = datetime.fromisoformat(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return DatetimeMS((moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1))


DATE = at("2017-06-19T15:13:25.713Z")
NEW_YEAR = at("2016-01-01T00:30:00Z")
DOC: dict[str, Any] = {
    "d": DATE,
    "ny": NEW_YEAR,
    "ts": Timestamp(1350336377, 7),
    "oid": ObjectId("507c7f79bcf86cd7994f6c0e"),
    "n": None,
    "u": Undefined(),
    "s": "text",
    "far": DatetimeMS(2**62),
    "past": DatetimeMS(-(2**62)),
}
PARIS, YORK = "Europe/Paris", "America/New_York"

PARTS: list[tuple[Any, Any]] = [
    ({"$year": "$d"}, 2017),
    ({"$month": ["$d"]}, 6),
    ({"$dayOfMonth": {"date": "$d"}}, 19),
    ({"$hour": {"date": "$d", "timezone": PARIS}}, 17),
    ({"$hour": {"date": "$d", "timezone": "-0330"}}, 11),
    ({"$minute": {"date": "$d", "timezone": "+05:30"}}, 43),
    ({"$second": "$d"}, 25),
    ({"$millisecond": "$d"}, 713),
    ({"$dayOfWeek": "$d"}, 2),
    ({"$isoDayOfWeek": "$d"}, 1),
    ({"$dayOfYear": "$d"}, 170),
    ({"$week": "$d"}, 25),
    ({"$week": "$ny"}, 0),
    ({"$isoWeek": "$ny"}, 53),
    ({"$isoWeekYear": "$ny"}, Int64(2015)),
    ({"$year": {"date": "$ny", "timezone": YORK}}, 2015),
    ({"$dayOfYear": {"date": "$ny", "timezone": YORK}}, 365),
    ({"$dayOfWeek": at("2016-01-03")}, 1),
    ({"$isoDayOfWeek": at("2016-01-03")}, 7),
    ({"$year": "$ts"}, 2012),
    ({"$hour": "$oid"}, 21),
    ({"$year": DatetimeMS(-1)}, 1969),
    ({"$millisecond": DatetimeMS(-1)}, 999),
    ({"$year": "$far"}, 146140482),
    ({"$year": {"date": "$past", "timezone": PARIS}}, -146136543),
    ({"$year": "$n"}, None),
    ({"$year": {"date": "$absent", "timezone": YORK}}, None),
    ({"$year": {"date": "$d", "timezone": "$n"}}, None),
    ({"$tsSecond": "$ts"}, Int64(1350336377)),
    ({"$tsIncrement": "$ts"}, Int64(7)),
    ({"$tsSecond": "$n"}, None),
    ({"$dateToParts": {"date": "$d", "timezone": YORK}},
     {"year": 2017, "month": 6, "day": 19, "hour": 11, "minute": 13, "second": 25, "millisecond": 713}),
    ({"$dateToParts": {"date": "$d", "iso8601": True}},
     {"isoWeekYear": 2017, "isoWeek": 25, "isoDayOfWeek": 1, "hour": 15, "minute": 13, "second": 25,
      "millisecond": 713}),
    ({"$dateToParts": {"date": "$n"}}, None),
    ({"$dateToParts": {"date": "$d", "iso8601": "$n"}}, None),
    ({"$dateFromParts": {"year": 2017}}, at("2017-01-01")),
    ({"$dateFromParts": {"year": 2017, "month": 6, "day": 23, "hour": 14, "minute": 27, "second": 37,
                         "millisecond": 742, "timezone": "Europe/Berlin"}}, at("2017-06-23T12:27:37.742Z")),
    ({"$dateFromParts": {"year": Decimal128("2017"), "month": 6.0, "day": Int64(19)}}, at("2017-06-19")),
    ({"$dateFromParts": {"year": 2017, "month": -1}}, at("2016-11-01")),
    ({"$dateFromParts": {"year": 2017, "month": 13}}, at("2018-01-01")),
    ({"$dateFromParts": {"year": 2017, "day": 0}}, at("2016-12-31")),
    ({"$dateFromParts": {"year": 2017, "day": 61}}, at("2017-03-02")),
    ({"$dateFromParts": {"year": 2017, "hour": -1}}, at("2016-12-31T23:00:00Z")),
    ({"$dateFromParts": {"year": 1970, "second": 1502095918}}, at("2017-08-07T08:51:58Z")),
    ({"$dateFromParts": {"isoWeekYear": 2017, "isoWeek": 6.0, "isoDayOfWeek": 4}}, at("2017-02-09")),
    ({"$dateFromParts": {"isoWeekYear": 2017, "isoWeek": 25, "hour": 15, "timezone": "-04:00"}},
     at("2017-06-19T19:00:00Z")),
    ({"$dateFromParts": {"year": "$absent"}}, None),
    ({"$dateFromParts": {"year": 2017, "timezone": "$n"}}, None),
]  # fmt: skip

ARITHMETIC: list[tuple[Any, Any]] = [
    ({"$dateAdd": {"startDate": at("2020-11-30T12:10:05Z"), "unit": "day", "amount": 1}},
     at("2020-12-01T12:10:05Z")),
    ({"$dateAdd": {"startDate": at("2020-10-24T18:10:00Z"), "unit": "hour", "amount": 24, "timezone": PARIS}},
     at("2020-10-25T18:10:00Z")),
    ({"$dateAdd": {"startDate": at("2020-10-24T18:10:00Z"), "unit": "day", "amount": 1, "timezone": PARIS}},
     at("2020-10-25T19:10:00Z")),
    ({"$dateAdd": {"startDate": at("2021-01-30T23:30:00Z"), "unit": "month", "amount": 1, "timezone": PARIS}},
     at("2021-02-27T23:30:00Z")),
    ({"$dateAdd": {"startDate": at("2020-02-29"), "unit": "year", "amount": 1}}, at("2021-02-28")),
    ({"$dateAdd": {"startDate": at("2020-12-31"), "unit": "week", "amount": 1.0}}, at("2021-01-07")),
    ({"$dateAdd": {"startDate": at("2020-12-31"), "unit": "quarter", "amount": -2}}, at("2020-06-30")),
    ({"$dateAdd": {"startDate": at("2020-12-31"), "unit": "millisecond", "amount": Int64(1050)}},
     at("2020-12-31T00:00:01.050Z")),
    ({"$dateAdd": {"startDate": "$n", "unit": "day", "amount": 1}}, None),
    ({"$dateAdd": {"startDate": "$d", "unit": "$absent", "amount": 1}}, None),
    ({"$dateSubtract": {"startDate": at("2021-01-31T03:00:00Z"), "unit": "month", "amount": 2}},
     at("2020-11-30T03:00:00Z")),
    ({"$dateSubtract": {"startDate": at("2021-01-31T03:00:00Z"), "unit": "month", "amount": 2,
                    "timezone": YORK}},
     at("2020-12-01T03:00:00Z")),
    ({"$dateSubtract": {"startDate": at("2020-12-31T12:10:05Z"), "unit": "minute", "amount": 15}},
     at("2020-12-31T11:55:05Z")),
    ({"$dateDiff": {"startDate": at("2020-11-01T18:23:36Z"), "endDate": at("2020-11-02"), "unit": "hour"}},
     Int64(6)),
    ({"$dateDiff": {"startDate": at("2020-12-31T23:59:59Z"), "endDate": at("2021-01-01"), "unit": "year"}},
     Int64(1)),
    ({"$dateDiff": {"startDate": at("2020-12-31"), "endDate": at("2020-09-30"), "unit": "quarter"}},
     Int64(-1)),
    ({"$dateDiff": {"startDate": at("2020-01-31"), "endDate": at("2020-03-01"), "unit": "month"}}, Int64(2)),
    ({"$dateDiff": {"startDate": at("2021-01-24T18:23:36Z"), "endDate": at("2021-01-25T02:23:36Z"),
                    "unit": "week",
                    "startOfWeek": "MONDAY"}}, Int64(1)),
    ({"$dateDiff": {"startDate": at("2021-01-24T18:23:36Z"), "endDate": at("2021-01-25T02:23:36Z"),
                    "unit": "week"}},
     Int64(0)),
    ({"$dateDiff": {"startDate": at("2021-01-17T05:00:00Z"), "endDate": at("2021-01-17T04:59:00Z"),
                    "unit": "week",
                    "timezone": YORK, "startOfWeek": "sun"}}, Int64(-1)),
    ({"$dateDiff": {"startDate": at("2020-10-24T22:00:00Z"), "endDate": at("2020-10-25T23:00:00Z"),
                    "unit": "day",
                    "timezone": PARIS}}, Int64(1)),
    ({"$dateDiff": {"startDate": at("2020-10-24T22:00:00Z"), "endDate": at("2020-10-25T23:00:00Z"),
                    "unit": "hour",
                    "timezone": PARIS}}, Int64(25)),
    ({"$dateDiff": {"startDate": "$ts", "endDate": "$oid", "unit": "second", "startOfWeek": 5}}, Int64(0)),
    ({"$dateDiff": {"startDate": 1, "endDate": 2, "unit": "$n"}}, None),
    ({"$dateDiff": {"startDate": 1, "endDate": "$n", "unit": "century"}}, None),
    ({"$dateDiff": {"startDate": 1, "endDate": 2, "unit": "week", "startOfWeek": "$n"}}, None),
    ({"$dateTrunc": {"date": at("2020-11-01T18:23:36Z"), "unit": "hour", "binSize": 2}},
     at("2020-11-01T18:00:00Z")),
    ({"$dateTrunc": {"date": at("2021-12-01T18:23:36Z"), "unit": "hour", "binSize": 4, "timezone": YORK}},
     at("2021-12-01T17:00:00Z")),
    ({"$dateTrunc": {"date": at("2021-02-15T18:23:36Z"), "unit": "week"}}, at("2021-02-14")),
    ({"$dateTrunc": {"date": at("2000-01-30T18:00:00Z"), "unit": "week", "binSize": 2, "timezone": YORK,
                     "startOfWeek": "mon"}}, at("2000-01-17T05:00:00Z")),
    ({"$dateTrunc": {"date": "$oid", "unit": "minute", "binSize": 10}}, at("2012-10-15T21:20:00Z")),
    ({"$dateTrunc": {"date": "$ts", "unit": "second", "binSize": 10}}, at("2012-10-15T21:26:10Z")),
    ({"$dateTrunc": {"date": "$d", "unit": "year"}}, at("2017-01-01")),
    ({"$dateTrunc": {"date": "$d", "unit": "quarter"}}, at("2017-04-01")),
    ({"$dateTrunc": {"date": "$d", "unit": "month", "binSize": 7}}, at("2016-12-01")),
    ({"$dateTrunc": {"date": "$d", "unit": "year", "binSize": 10, "timezone": "+02:00"}},
     at("2009-12-31T22:00:00Z")),
    ({"$dateTrunc": {"date": at("1999-12-31"), "unit": "year", "binSize": 3}}, at("1997-01-01")),
    ({"$dateTrunc": {"date": "$d", "unit": "day", "timezone": YORK}}, at("2017-06-19T04:00:00Z")),
    ({"$dateTrunc": {"date": "$d", "unit": "$n"}}, None),
    ({"$dateTrunc": {"date": "$d", "unit": "day", "binSize": "$absent"}}, None),
]  # fmt: skip

TEXT: list[tuple[Any, Any]] = [
    ({"$dateToString": {"date": "$d"}}, "2017-06-19T15:13:25.713Z"),
    ({"$dateToString": {"date": "$d", "timezone": YORK}}, "2017-06-19T11:13:25.713"),
    ({"$dateToString": {"date": "$d", "timezone": "UTC"}}, "2017-06-19T15:13:25.713Z"),
    ({"$dateToString": {"date": "$d", "format": "%Y/%m/%d %H:%M:%S:%L%%"}}, "2017/06/19 15:13:25:713%"),
    ({"$dateToString": {"date": "$ny", "format": "%G-W%V-%u %j %U %w"}}, "2015-W53-5 001 00 6"),
    ({"$dateToString": {"date": "$d", "format": "%b %B"}}, "Jun June"),
    ({"$dateToString": {"date": "$d", "format": "%z %Z", "timezone": "+04:45"}}, "+0445 285"),
    ({"$dateToString": {"date": "$d", "format": "%z %Z", "timezone": YORK}}, "-0400 -240"),
    ({"$dateToString": {"date": "$d", "format": ""}}, ""),
    ({"$dateToString": {"date": "$ts", "format": "%Y"}}, "2012"),
    ({"$dateToString": {"date": "$n"}}, None),
    ({"$dateToString": {"date": "$n", "onNull": "none"}}, "none"),
    ({"$dateToString": {"date": "$d", "format": "$n"}}, None),
    ({"$dateToString": {"date": "$d", "timezone": "$u"}}, None),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), [*PARTS, *ARITHMETIC, *TEXT])
def test_value(spec: Any, expected: Any) -> None:
    assert_value(spec, DOC, expected)


READ: list[tuple[str, str | None, str]] = [
    ("2017-07-04T11:56:02Z", "%Y-%m-%dT%H:%M:%SZ", "2017-07-04T11:56:02Z"),
    ("2017-07-04T11:56:02.81Z", "%Y-%m-%dT%H:%M:%S.%LZ", "2017-07-04T11:56:02.810Z"),
    ("2017-07-04T11:56.02.8", "%Y-%m-%dT%H:%M.%S.%L", "2017-07-04T11:56:02.800Z"),
    ("2017-07-06", None, "2017-07-06"),
    ("2017-07-06 11:36:54", None, "2017-07-06T11:36:54Z"),
    ("20170706T113654Z", None, "2017-07-06T11:36:54Z"),
    ("2017-07", None, "2017-07-01"),
    ("2017-W06-4", None, "2017-02-09"),
    ("@1500000000", None, "2017-07-14T02:40:00Z"),
    ("2017-07-14T12:02:44.771 GMT+02:00", "%Y-%m-%dT%H:%M:%S.%L%z", "2017-07-14T10:02:44.771Z"),
    ("2017-07-14T12:02:44.771+03", "%Y-%m-%dT%H:%M:%S.%L%z", "2017-07-14T09:02:44.771Z"),
    ("2017-07-14T12:02:44.771+0330", "%Y-%m-%dT%H:%M:%S.%L%z", "2017-07-14T08:32:44.771Z"),
    ("2017-07-14T12:02:44.771 CEST", "%Y-%m-%dT%H:%M:%S.%L%z", "2017-07-14T10:02:44.771Z"),
    ("2017-07-14T12:02:44.771 EST", "%Y-%m-%dT%H:%M:%S.%L%z", "2017-07-14T17:02:44.771Z"),
    ("2017-07-14T12:02:44.771 A", "%Y-%m-%dT%H:%M:%S.%L%z", "2017-07-14T11:02:44.771Z"),
    ("2017-07-14T12:02:44.771 L", "%Y-%m-%dT%H:%M:%S.%L%z", "2017-07-14T01:02:44.771Z"),
    ("2017-07-14T12:02:44.771 P", "%Y-%m-%dT%H:%M:%S.%L%z", "2017-07-14T15:02:44.771Z"),
    ("July 4th, 2017", None, "2017-07-04"),
    ("July 4th, 2017 12:39:30 BST", None, "2017-07-04T11:39:30Z"),
    ("July 4th, 2017 11am", None, "2017-07-04T11:00:00Z"),
    ("July 4th, 2017 12pm", None, "2017-07-04T12:00:00Z"),
    ("Tue, 4 Jul 2017 08:09:10 +0200", None, "2017-07-04T06:09:10Z"),
    ("7/4/17", None, "2017-07-04"),
    ("04-07-2017", None, "2017-07-04"),
    ("04.07.2017", None, "2017-07-04"),
    ("2017-Jul-04 noon", None, "2017-07-04T12:00:00Z"),
    ("2017-07-04 12:48:07 GMT+0545", None, "2017-07-04T07:03:07Z"),
    ("05 12 1988", "%d %m %Y", "1988-12-05"),
    ("1992 % 04 % 26", "%Y %% %m %% %d", "1992-04-26"),
    ("Day: 05 Month: 12 Year: 1988", "Day: %d Month: %m Year: %Y", "1988-12-05"),
    ("4/26/1992:+0445", "%m/%d/%Y:%z", "1992-04-25T19:15:00Z"),
    ("4/26/1992:+285", "%m/%d/%Y:%Z", "1992-04-25T19:15:00Z"),
    ("26 Apr 1992", "%d %b %Y", "1992-04-26"),
    ("117 of 1992", "%j of %Y", "1992-04-26"),
    ("2017", "%G", "2017-01-02"),
    ("2017, Week 53", "%G, Week %V", "2018-01-01"),
    ("53.7.2017", "%V.%u.%G", "2018-01-07"),
    ("1.1.1", "%V.%u.%G", "0001-01-01"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "format_text", "expected"), READ)
def test_parsing(text: str, format_text: str | None, expected: str) -> None:
    if format_text is None or format_text.startswith("%Y-"):
        assert_value({"$dateFromString": {"dateString": "$t"}}, {"t": text}, at(expected))
    if format_text is not None:
        spec = {"dateString": "$t", "format": "$f"}
        assert_value({"$dateFromString": spec}, {"t": text, "f": format_text}, at(expected))


def test_parsing_in_a_time_zone() -> None:
    for zone, expected in {"UTC": "12:35", YORK: "16:35", PARIS: "10:35", "+04:00": "08:35"}.items():
        spec = {"dateString": "2017-07-06T12:35:37.513", "timezone": zone}
        date = at(f"2017-07-06T{expected}:37.513Z")
        assert_value({"$dateFromString": spec}, {}, date)
        assert_value({"$dateFromString": {**spec, "format": "%Y-%m-%dT%H:%M:%S.%L"}}, {}, date)


UNREADABLE: list[dict[str, Any]] = [
    {"dateString": "2017-040"},
    {"dateString": "2017-07-04T24:00:00"},
    {"dateString": "2017-07-12T22:23:55Z", "timezone": "UTC"},
    {"dateString": "July 4th"},
    {"dateString": "12:50:53"},
    {"dateString": ""},
    {"dateString": "2017, 12:50:53"},
    {"dateString": "60.Monday1770/06:59"},
    {"dateString": "2017-02-30"},
    {"dateString": "2017-07-12T25:00:00"},
    {"dateString": "2017-07-12T22:23:55 Europe/Amsterdam"},
    {"dateString": "2017-07-12T22:23:55Z", "timezone": PARIS},
    {"dateString": "2017-07-12T22:23:55 GMT+02:00", "timezone": PARIS},
    {"dateString": "2018-01", "format": "%Y-%m-%d"},
    {"dateString": "2018-01", "format": "%Y"},
    {"dateString": "1992-26-04", "format": "Y-d-m"},
    {"dateString": "4/26/1992:+0445", "format": "%m/%d/%Y:%z", "timezone": "+0500"},
    {"dateString": "ISO Day 6", "format": "ISO Day %u"},
    {"dateString": "ISO Week 1, 2018", "format": "ISO Week %V, %Y"},
    {"dateString": "12/31/2018", "format": "%m/%d/%G"},
    {"dateString": "13/31/2018", "format": "%m/%d/%Y"},
    {"dateString": "31", "format": "%d"},
    {"dateString": 5},
]  # fmt: skip


@pytest.mark.parametrize("spec", UNREADABLE)
def test_text_that_is_not_a_date(spec: dict[str, Any]) -> None:
    assert_code({"$dateFromString": spec}, {}, 241)
    assert_value({"$dateFromString": {**spec, "onError": "bad"}}, {}, "bad")


@pytest.mark.parametrize("value", ["$n", "$u", "$absent"])
def test_parsing_null(value: str) -> None:
    assert_value({"$dateFromString": {"dateString": value}}, DOC, None)
    assert_value({"$dateFromString": {"dateString": value, "onNull": 5}}, DOC, 5)
    assert_value({"$dateFromString": {"dateString": "2017-01-01", "timezone": value}}, DOC, None)
    assert_value({"$dateFromString": {"dateString": "2017-01-01", "format": value}}, DOC, None)


ERRORS: list[tuple[Any, int]] = [
    ({"$year": "$s"}, 16006),
    ({"$year": 5}, 16006),
    ({"$year": {"date": "$d", "x": 1}}, 40535),
    ({"$year": ["$d", "$d"]}, 40536),
    ({"$year": {"timezone": "UTC"}}, 40539),
    ({"$year": {"date": "$d", "timezone": "No/Where"}}, 40485),
    ({"$year": {"date": "$d", "timezone": "../etc/passwd"}}, 40485),
    ({"$year": {"date": "$d", "timezone": "+1"}}, 40485),
    ({"$year": {"date": "$d", "timezone": 5}}, 40533),
    ({"$tsSecond": "$d"}, 5687301),
    ({"$tsIncrement": 1}, 5687302),
    ({"$dateToParts": "$d"}, 40524),
    ({"$dateToParts": {"date": "$d", "x": 1}}, 40520),
    ({"$dateToParts": {"timezone": "UTC"}}, 40522),
    ({"$dateToParts": {"date": "$d", "iso8601": 1}}, 40521),
    ({"$dateFromParts": True}, 40519),
    ({"$dateFromParts": {"unknown": True}}, 40518),
    ({"$dateFromParts": {}}, 40516),
    ({"$dateFromParts": {"year": 2017, "isoWeek": 3}}, 40489),
    ({"$dateFromParts": {"isoWeekYear": 2017, "month": 12}}, 40525),
    ({"$dateFromParts": {"year": "2017"}}, 40515),
    ({"$dateFromParts": {"year": 2017.3}}, 40515),
    ({"$dateFromParts": {"year": 2017, "month": False}}, 40515),
    ({"$dateFromParts": {"year": 10000}}, 40523),
    ({"$dateFromParts": {"isoWeekYear": 0}}, 31095),
    ({"$dateFromParts": {"year": 1970, "month": 32768}}, 31034),
    ({"$dateFromParts": {"year": 1970, "minute": -32769}}, 31034),
    ({"$dateFromParts": {"year": 1970, "millisecond": Int64(2**62)}}, 159),
    ({"$dateFromParts": {"year": 1970, "millisecond": 1.8e19}}, 40515),
    ({"$dateFromParts": {"year": 2012, "timezone": 5}}, 40517),
    ({"$dateAdd": 1}, 5166400),
    ({"$dateAdd": {"startDate": "$d", "units": "day", "amount": 1}}, 5166401),
    ({"$dateAdd": {"unit": "second", "amount": 120}}, 5166402),
    ({"$dateSubtract": {"startDate": "birthday", "unit": "year", "amount": 10}}, 5166403),
    ({"$dateAdd": {"startDate": "$d", "unit": 1, "amount": 10}}, 5166404),
    ({"$dateAdd": {"startDate": "$d", "unit": "epoch", "amount": 10}}, 9),
    ({"$dateSubtract": {"startDate": "$d", "unit": "year", "amount": 1.001}}, 5166405),
    ({"$dateAdd": {"startDate": "$d", "unit": "year", "amount": 1, "timezone": "Unknown"}}, 40485),
    ({"$dateAdd": {"startDate": "$d", "unit": "year", "amount": Int64(2**60)}}, 5976500),
    ({"$dateAdd": {"startDate": "$far", "unit": "year", "amount": 200_000_000}}, 5166406),
    ({"$dateTrunc": {"date": DatetimeMS(-(2**63)), "unit": "year", "binSize": 1000}}, 5439000),
    ({"$dateDiff": 1}, 5166301),
    ({"$dateDiff": {"x": 1}}, 5166302),
    ({"$dateDiff": {"endDate": "$d", "unit": "day"}}, 5166303),
    ({"$dateDiff": {"startDate": "$d", "unit": "day"}}, 5166304),
    ({"$dateDiff": {"startDate": "$d", "endDate": "$d"}}, 5166305),
    ({"$dateDiff": {"startDate": "$s", "endDate": "$d", "unit": "day"}}, 5166307),
    ({"$dateDiff": {"startDate": "$d", "endDate": "$d", "unit": 5}}, 5439013),
    ({"$dateDiff": {"startDate": "$d", "endDate": "$d", "unit": "decade"}}, 5439014),
    ({"$dateDiff": {"startDate": "$d", "endDate": "$d", "unit": "week", "startOfWeek": 1}}, 5439015),
    ({"$dateDiff": {"startDate": "$d", "endDate": "$d", "unit": "week", "startOfWeek": "FRIDIE"}}, 5439016),
    ({"$dateTrunc": "A"}, 5439007),
    ({"$dateTrunc": {"endDate": 1}}, 5439008),
    ({"$dateTrunc": {"unit": "week"}}, 5439009),
    ({"$dateTrunc": {"date": "$d"}}, 5439010),
    ({"$dateTrunc": {"date": "$s", "unit": "day"}}, 5439012),
    ({"$dateTrunc": {"date": "$d", "unit": "day", "binSize": 2.5}}, 5439017),
    ({"$dateTrunc": {"date": "$d", "unit": "day", "binSize": 0}}, 5439018),
    ({"$dateToString": "$d"}, 18629),
    ({"$dateToString": {"date": "$d", "x": 1}}, 18534),
    ({"$dateToString": {"format": "%Y"}}, 18628),
    ({"$dateToString": {"date": "$d", "format": 5}}, 18533),
    ({"$dateToString": {"date": "$d", "format": "%Y%"}}, 18535),
    ({"$dateToString": {"date": "$d", "format": "%n"}}, 18536),
    ({"$dateToString": {"date": "$far"}}, 18537),
    ({"$dateToString": {"date": "$s"}}, 16006),
    ({"$dateFromString": "text"}, 40540),
    ({"$dateFromString": {"unknown": 1}}, 40541),
    ({"$dateFromString": {"format": "%Y"}}, 40542),
    ({"$dateFromString": {"dateString": "1992", "format": 5}}, 40684),
    ({"$dateFromString": {"dateString": "1992", "format": "%n"}}, 18536),
    ({"$dateFromString": {"dateString": "1992-01-01", "timezone": "Nowhere"}}, 40485),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "code"), ERRORS)
def test_error(spec: Any, code: int) -> None:
    assert_code(spec, DOC, code)


LAWS = settings(derandomize=False, print_blob=True, max_examples=60)
MILLIS = st.integers(-62135596800000, 253402300799999)
ZONES = st.sampled_from(["UTC", PARIS, YORK, "Asia/Kathmandu", "-03:30"])


@LAWS
@given(st.integers(-(2**63), 2**63 - 1))
def test_a_date_equals_the_date_from_its_parts(millis: int) -> None:
    parts = evaluate({"$dateToParts": {"date": "$d"}}, {"d": DatetimeMS(millis)})
    whole = parts["hour"] * 3600000 + parts["minute"] * 60000 + parts["second"] * 1000 + parts["millisecond"]
    assert whole == millis % 86400000
    if 1 <= parts["year"] <= 9999:
        assert_value({"$dateFromParts": parts}, {}, DatetimeMS(millis))
        iso = evaluate({"$dateToParts": {"date": "$d", "iso8601": True}}, {"d": DatetimeMS(millis)})
        if 1 <= iso["isoWeekYear"] <= 9999:
            assert_value({"$dateFromParts": iso}, {}, DatetimeMS(millis))


@LAWS
@given(MILLIS)
def test_parts_agree_with_python(millis: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)
    document = {"d": DatetimeMS(millis)}
    assert evaluate({"$isoWeekYear": "$d"}, document) == moment.isocalendar().year
    assert evaluate({"$isoWeek": "$d"}, document) == moment.isocalendar().week
    assert evaluate({"$dayOfYear": "$d"}, document) == moment.timetuple().tm_yday
    assert evaluate({"$week": "$d"}, document) == int(moment.strftime("%U"))


@LAWS
@given(
    MILLIS,
    st.sampled_from(["year", "quarter", "month", "week", "day", "hour", "minute"]),
    st.integers(1, 9),
    ZONES,
)
def test_truncation(millis: int, unit: str, size: int, zone: str) -> None:
    document = {"d": DatetimeMS(millis)}
    spec = {"date": "$d", "unit": unit, "binSize": size, "timezone": zone}
    start = evaluate({"$dateTrunc": spec}, document)
    assert int(start) <= millis
    assert_value({"$dateTrunc": spec}, {"d": start}, start)
    difference = {"startDate": "$s", "endDate": "$d", "unit": unit, "timezone": zone}
    assert 0 <= evaluate({"$dateDiff": difference}, {**document, "s": start}) <= size


@LAWS
@given(MILLIS, st.sampled_from(["hour", "minute", "second", "millisecond"]), st.integers(-1000, 1000), ZONES)
def test_adding_and_subtracting_a_duration(millis: int, unit: str, amount: int, zone: str) -> None:
    moved = {"$dateAdd": {"startDate": "$d", "unit": unit, "amount": amount, "timezone": zone}}
    back = {"$dateSubtract": {"startDate": moved, "unit": unit, "amount": amount, "timezone": zone}}
    assert_value(back, {"d": DatetimeMS(millis)}, DatetimeMS(millis))

r"""Translate PCRE syntax to the syntax of Python's `re`.

The translation resolves all options except ``i``: the result needs no flag but `re.IGNORECASE`, if the whole
pattern ignores case. Parts with another case rule than their surroundings are wrapped in ``(?i:...)`` or
``(?-i:...)``, because `re` cannot change an option in the middle of a group, as PCRE can.

The result has PCRE's meaning: ``\w`` and ``\b`` are ASCII, ``^`` with ``m`` does not match after a final
newline, ``{,3}`` is text, and so on. Recursion, subroutine calls, branch reset,
callouts, ``\K``, ``\G``, ``\C``, ``\X`` and the backtracking verbs have no equivalent and are refused.
"""

import re
from typing import Final, NamedTuple

from tailrace.query.pcre.charsets import char_set, with_other_cases
from tailrace.query.pcre.classes import read_class, write_set
from tailrace.query.pcre.options import PatternOptions, with_letters
from tailrace.query.pcre.reader import PatternError, Reader

_MAX_REPEAT: Final = 65535
_REPEAT: Final = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_NAME: Final = re.compile(r"[^\W\d]\w{0,31}")
_NUMBER: Final = re.compile(r"\d+")
_SETTING: Final = re.compile(r"\(\*([A-Z0-9_]+)(?:=\d+)?\)")
_VERB: Final = re.compile(r"\(\*([A-Za-z_]*)(?::([^)]*))?\)")
_WORDY_GROUP: Final = re.compile(r"\(\*([a-z_]+):")
_OPTION_LETTERS: Final = re.compile(r"(\^?)([a-zA-Z]*)(?:(-)([a-zA-Z]*))?")
_IGNORED: Final = re.compile(r"(?:[ \t-\r\x85\u200e\u200f\u2028\u2029]|#[^\n]*(?:\n|\Z))+")

_HARMLESS_SETTINGS: Final = frozenset(
    {"UTF", "UTF8", "UCP", "LF", "NO_AUTO_POSSESS", "NO_DOTSTAR_ANCHOR", "NO_JIT", "NO_START_OPT", "NOTEMPTY",
     "NOTEMPTY_ATSTART", "LIMIT_DEPTH", "LIMIT_HEAP", "LIMIT_MATCH", "LIMIT_RECURSION"}
)  # fmt: skip
# At the start of a pattern these have no effect.
_HARMLESS_AT_START: Final = frozenset({"PRUNE", "SKIP", "THEN", "MARK", ""})
_WORDY_GROUPS: Final = {
    "pla": "=", "positive_lookahead": "=", "nla": "!", "negative_lookahead": "!",
    "plb": "<=", "positive_lookbehind": "<=", "nlb": "<!", "negative_lookbehind": "<!", "atomic": ">",
}  # fmt: skip
_UNSUPPORTED_GROUPS: Final = {
    "R": "recursion", "&": "subroutine call", "P>": "subroutine call", "|": "branch reset", "C": "callout",
}  # fmt: skip
_CALL_BY_NUMBER: Final = re.compile(r"[+-]?\d")
# Not for \D, \W and \S: `re` ignores the flag while it looks for a place where the pattern could start.
_ASCII_ESCAPES: Final = {"d": r"(?a:\d)", "w": r"(?a:\w)", "s": r"(?a:\s)"}
# Python's \b does not match in an empty text, and its \B does not either; PCRE's \B does.
_ASSERTION_ESCAPES: Final = {"A": r"\A", "z": r"\Z", "Z": r"(?=\n?\Z)", "b": r"(?a:\b)", "B": r"(?!(?a:\b))"}
_UNICODE_BOUNDARIES: Final = {"b": r"\b", "B": r"(?!\b)"}
_NEWLINE_SEQUENCE: Final = r"(?>\r\n|[\n-\r\x85\u2028\u2029])"


class _Piece(NamedTuple):
    text: str
    is_assertion: bool = False
    """`re` refuses to repeat an assertion that is not in a group."""


class Translator:
    """One pass over a pattern; `groups` counts the capturing groups."""

    def __init__(self, pattern: str, total_groups: int = 0) -> None:
        self.groups = 0
        self._total_groups = total_groups
        self._reader = Reader(pattern)
        self._depth = 0
        self._quoted = False

    def translate(self, options: PatternOptions) -> str:
        """Return the translation of the whole pattern."""
        reader = self._reader
        while (setting := _SETTING.match(reader.pattern, reader.position)) and self._is_setting(setting[1]):
            reader.position = setting.end()
        branches = self._branches(options, options.ignore_case)
        if not reader.at_end():
            raise PatternError("unmatched closing parenthesis")
        return "|".join(branches)

    def _is_setting(self, name: str) -> bool:
        if name == "UCP":
            self._reader.unicode_properties = True
        return name in _HARMLESS_SETTINGS

    def _branches(self, options: PatternOptions, outer_ignore_case: bool) -> list[str]:
        """Read the alternatives up to the end of the group; an option set in one holds in those after it."""
        branches = []
        while True:
            branch, options = self._sequence(options, outer_ignore_case)
            branches.append(branch)
            if not self._reader.take("|"):
                return branches

    def _sequence(self, options: PatternOptions, outer_ignore_case: bool) -> tuple[str, PatternOptions]:
        reader = self._reader
        runs: list[tuple[bool, list[str]]] = []
        accepted = False
        while not reader.at_end() and (self._quoted or not reader.next_is("|", ")")):
            if self._skip_ignored(options):
                continue
            if self._depth == 0 and not self._quoted and reader.take("(*ACCEPT)"):
                # The match ends here with success: the rest of this alternative is read and dropped.
                accepted = True
                continue
            piece = self._piece(options)
            if isinstance(piece, PatternOptions):
                options = piece
            elif piece is not None:
                text = self._repeated(piece, options)
                if accepted:
                    continue
                if not runs or runs[-1][0] != options.ignore_case:
                    runs.append((options.ignore_case, []))
                runs[-1][1].append(text)
        written = []
        for ignore_case, texts in runs:
            joined = "".join(texts)
            if ignore_case != outer_ignore_case:
                joined = f"(?{'' if ignore_case else '-'}i:{joined})"
            written.append(joined)
        return "".join(written), options

    def _skip_ignored(self, options: PatternOptions) -> bool:
        reader = self._reader
        if self._quoted:
            self._quoted = not reader.take("\\E")
            return not self._quoted
        if reader.take("\\Q"):
            self._quoted = True
            return True
        if reader.take("\\E"):
            return True
        if reader.take("(?#"):
            reader.take_until(")", "missing ) of a comment")
            return True
        return options.extended and reader.take_match(_IGNORED) is not None

    def _piece(self, options: PatternOptions) -> _Piece | PatternOptions | None:
        reader = self._reader
        if self._quoted:
            return self._literal(reader.take_char(""), options)
        if reader.next_is("("):
            return self._group(options)
        char = reader.take_char("")
        if char == "\\":
            return self._escape(options)
        if char == "[":
            text = read_class(reader, ignore_case=options.ignore_case, ignore_blanks=options.extended_more)
            return _Piece(text)
        if char == ".":
            return _Piece("(?s:.)" if options.dot_all else ".")
        if char == "^":
            return _Piece(r"(?:\A|(?<=\n)(?!\Z))" if options.multi_line else r"\A", is_assertion=True)
        if char == "$":
            return _Piece("(?m:$)" if options.multi_line else "$", is_assertion=True)
        if char in "*+?":
            raise PatternError(f"{char} has nothing to repeat")
        if char == "{":
            reader.position -= 1
            if _REPEAT.match(reader.pattern, reader.position):
                raise PatternError("a repeat count has nothing to repeat")
            reader.position += 1
        return self._literal(char, options)

    @staticmethod
    def _literal(char: str, options: PatternOptions) -> _Piece:
        # To `re` the Turkish letters U+0130 and U+0131 are other cases of i, to PCRE they are not.
        if options.ignore_case and char in "iI\u0130\u0131":
            return _Piece(write_set(with_other_cases(char_set(char)), ignore_case=True))
        return _Piece(re.escape(char))

    def _repeated(self, piece: _Piece, options: PatternOptions) -> str:
        """Return the piece with the quantifier that follows it, if there is one."""
        reader = self._reader
        if self._quoted and not reader.next_is("\\E"):
            return piece.text
        while self._skip_ignored(options):
            if self._quoted:
                return piece.text
        repeat = self._repeat()
        if repeat is None:
            return piece.text
        while self._skip_ignored(options):
            pass
        possessive = not self._quoted and reader.take("+")
        lazy = not self._quoted and not possessive and reader.take("?")
        suffix = "+" if possessive else "?" if lazy != options.ungreedy else ""
        while self._skip_ignored(options):
            pass
        if self._repeat() is not None:
            raise PatternError("a quantifier follows a quantifier")
        text = f"(?:{piece.text})" if piece.is_assertion else piece.text
        return f"{text}{repeat}{suffix}"

    def _repeat(self) -> str | None:
        reader = self._reader
        if self._quoted or reader.at_end():
            return None
        if reader.next_is("*", "+", "?"):
            return reader.take_char("")
        match = reader.take_match(_REPEAT)
        if match is None:
            return None
        low, high = match.groups()
        if int(low) > _MAX_REPEAT or int(high or 0) > _MAX_REPEAT:
            raise PatternError(f"a repeat count is larger than {_MAX_REPEAT}")
        if high and int(high) < int(low):
            raise PatternError("the numbers of a repeat count are out of order")
        return match[0]

    # Escapes

    def _escape(self, options: PatternOptions) -> _Piece:
        reader = self._reader
        char = reader.character_escape()
        if char is not None:
            return self._literal(char, options)
        letter = reader.pattern[reader.position]
        if letter.isdigit():
            return self._numeric_escape()
        if letter in _ASCII_ESCAPES and not reader.unicode_properties:
            reader.position += 1
            return _Piece(_ASCII_ESCAPES[letter])
        found = reader.set_escape()
        if found is not None:
            return _Piece(write_set(found, options.ignore_case))
        reader.position += 1
        if letter in _ASSERTION_ESCAPES:
            text = _UNICODE_BOUNDARIES.get(letter) if reader.unicode_properties else None
            return _Piece(text or _ASSERTION_ESCAPES[letter], is_assertion=True)
        if letter == "N":
            return _Piece(".")
        if letter == "R":
            return _Piece(_NEWLINE_SEQUENCE)
        if letter == "k":
            return self._named_reference()
        if letter == "g":
            return self._reference()
        raise PatternError(f"\\{letter} is not supported")

    def _numeric_escape(self) -> _Piece:
        reader = self._reader
        start = reader.position
        match = reader.take_match(_NUMBER)
        number = match[0] if match else ""
        if len(number) == 1 or int(number) <= self._total_groups:
            return self._group_reference(int(number))
        reader.position = start
        char = reader.octal_escape()
        if char is None:
            raise PatternError(f"\\{number} refers to a group that does not exist")
        return _Piece(re.escape(char))

    @staticmethod
    def _group_reference(number: int) -> _Piece:
        # In a group, so that a digit that follows stays a digit.
        return _Piece(f"(?:\\{number})")

    def _named_reference(self) -> _Piece:
        reader = self._reader
        closing = {"<": ">", "'": "'", "{": "}"}.get(reader.take_char("\\k needs a name"))
        if closing is None:
            raise PatternError("\\k needs a name in braces, angle brackets or quotes")
        return _Piece(f"(?P={self._name(closing)})")

    def _reference(self) -> _Piece:
        reader = self._reader
        if reader.next_is("<", "'"):
            raise PatternError("subroutine calls are not supported")
        braced = reader.take("{")
        negative = reader.take("-")
        match = reader.take_match(_NUMBER)
        if match is None:
            if not braced or negative:
                raise PatternError("\\g needs a number or a name in braces")
            return _Piece(f"(?P={self._name('}')})")
        number = self.groups + 1 - int(match[0]) if negative else int(match[0])
        if number < 1 or (braced and not reader.take("}")):
            raise PatternError("\\g needs the number of a group")
        return self._group_reference(number)

    def _name(self, closing: str) -> str:
        match = self._reader.take_match(_NAME)
        if match is None or not self._reader.take(closing):
            raise PatternError("a group name must start with a letter and be closed")
        return match[0]

    # Groups

    def _group(self, options: PatternOptions) -> _Piece | PatternOptions | None:
        reader = self._reader
        if reader.next_is("(*"):
            return self._verb(options)
        reader.position += 1
        if not reader.take("?"):
            return self._body("(?:" if options.no_auto_capture else self._capture(), options)
        for opening in (":", ">"):
            if reader.take(opening):
                return self._body(f"(?{opening}", options)
        for opening in ("=", "!", "<=", "<!"):
            if reader.take(opening):
                return self._lookaround(opening, options)
        for opening, closing in (("P<", ">"), ("<", ">"), ("'", "'")):
            if reader.take(opening):
                return self._body(self._capture(self._name(closing)), options)
        if reader.take("P="):
            return _Piece(f"(?P={self._name(')')})")
        if reader.take("("):
            return self._conditional(options)
        for opening, feature in _UNSUPPORTED_GROUPS.items():
            if reader.next_is(opening):
                raise PatternError(f"unsupported {feature}")
        if _CALL_BY_NUMBER.match(reader.pattern, reader.position):
            raise PatternError("unsupported subroutine call")
        return self._option_group(options)

    def _capture(self, name: str | None = None) -> str:
        self.groups += 1
        return "(" if name is None else f"(?P<{name}>"

    def _body(self, opening: str, options: PatternOptions, outer_ignore_case: bool | None = None) -> _Piece:
        outer = options.ignore_case if outer_ignore_case is None else outer_ignore_case
        return _Piece(f"{opening}{'|'.join(self._inner_branches(options, outer))})")

    def _inner_branches(self, options: PatternOptions, outer_ignore_case: bool) -> list[str]:
        self._depth += 1
        branches = self._branches(options, outer_ignore_case)
        self._depth -= 1
        if not self._reader.take(")"):
            raise PatternError("missing closing parenthesis")
        return branches

    def _lookaround(self, opening: str, options: PatternOptions) -> _Piece:
        branches = self._inner_branches(options, options.ignore_case)
        if not opening.startswith("<") or len(branches) == 1:
            return _Piece(f"(?{opening}{'|'.join(branches)})", is_assertion=True)
        # PCRE requires a fixed length of each alternative, `re` of all of them together.
        parts = [f"(?{opening}{branch})" for branch in branches]
        return _Piece(f"(?:{('|' if opening == '<=' else '').join(parts)})", is_assertion=True)

    def _conditional(self, options: PatternOptions) -> _Piece:
        reader = self._reader
        if reader.take("?"):
            return self._conditional_on_lookaround(options)
        if reader.take("<"):
            condition = self._name(">)")
        elif reader.take("'"):
            condition = self._name("')")
        elif reader.next_is("R", "DEFINE", "VERSION"):
            raise PatternError("conditions on recursion, definitions and versions are not supported")
        else:
            condition = self._condition_by_number_or_name()
        branches = self._inner_branches(options, options.ignore_case)
        if len(branches) > 2:
            raise PatternError("a condition has more than two alternatives")
        return _Piece(f"(?({condition}){'|'.join(branches)})")

    def _condition_by_number_or_name(self) -> str:
        reader = self._reader
        sign = "-" if reader.take("-") else "+" if reader.take("+") else ""
        match = reader.take_match(_NUMBER)
        if match is None:
            return self._name(")")
        if not reader.take(")"):
            raise PatternError("missing ) after a condition")
        number = int(match[0])
        if sign:
            number = self.groups + 1 - number if sign == "-" else self.groups + number
        return str(number)

    def _conditional_on_lookaround(self, options: PatternOptions) -> _Piece:
        reader = self._reader
        groups_before = self.groups
        opening = next((kind for kind in ("=", "!", "<=", "<!") if reader.take(kind)), None)
        if opening is None:
            raise PatternError("a condition must be a group, a name or an assertion")
        condition = self._lookaround(opening, options).text
        if self.groups != groups_before:
            raise PatternError("a condition that contains groups is not supported")
        branches = self._inner_branches(options, options.ignore_case)
        if len(branches) > 2:
            raise PatternError("a condition has more than two alternatives")
        otherwise = branches[1] if len(branches) == 2 else ""
        return _Piece(f"(?:{condition}{branches[0]}|(?!{condition}){otherwise})")

    def _option_group(self, options: PatternOptions) -> _Piece | PatternOptions:
        reader = self._reader
        match = reader.take_match(_OPTION_LETTERS)
        end = reader.take_char("missing closing parenthesis")
        if match is None or end not in ":)" or (match[1] and match[3]):
            raise PatternError("unknown or unsupported kind of group")
        changed = options
        if match[1]:
            # Everything but the ungreedy option.
            changed = PatternOptions(ungreedy=options.ungreedy)
        changed = with_letters(changed, match[2], True)
        changed = with_letters(changed, match[4] or "", False)
        return changed if end == ")" else self._body("(?:", changed, options.ignore_case)

    def _verb(self, options: PatternOptions) -> _Piece | None:
        reader = self._reader
        wordy = reader.take_match(_WORDY_GROUP)
        if wordy is not None:
            kind = _WORDY_GROUPS.get(wordy[1])
            if kind is None:
                raise PatternError(f"(*{wordy[1]}: is not supported")
            return self._body("(?>", options) if kind == ">" else self._lookaround(kind, options)
        at_start = reader.position == 0
        match = reader.take_match(_VERB)
        if match is not None and match[1] in ("F", "FAIL"):
            return _Piece("(?!)")
        if match is not None and at_start and match[1] in _HARMLESS_AT_START:
            return None
        raise PatternError(f"the verb {match[0] if match else '(*'} is not supported here")

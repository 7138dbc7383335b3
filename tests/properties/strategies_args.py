"""
Random conditions on arguments, and values that they have something to say about.

A schema is made around a value: most keywords fit the value's type, and most limits lie near it,
so that true, false and indeterminate all happen often. Everything comes from small alphabets, the
plainest first, for that is where a failing example shrinks to.
"""

from functools import cache

from hypothesis import strategies as st

from tests.spec.json_spec import kind

NAMES = ["a", "b", "ab", "$ref"]
TEXTS = ["", "a", "b", "ab", "a\n", "5", "\u0663", "é", "true", "a@evil.example"]
PATTERNS = ["a", "^a$", "b$", r"^\d+$", r"\w", "^$", "evil", "^[^@]*$"]
NUMBERS = [0, 1, -1, 2, 5, 1.0, 2.5, -0.0, 0.3, 100, 10**15, 2**53 + 1, 2.0**53, 10**30, 1e300]
STEPS = [1, 2, 0.1, 0.5, 3, 2.0, 1e-3, 10**20]
TYPES = ["null", "boolean", "number", "integer", "string", "array", "object"]
MARKERS = [{"$python": "Decimal"}, {"$withheld": 12}, {"$python": "x", "a": 1}]
SAMPLES = [
    *(None, True, False, 0, 1, 5, 100, 2.5, "", "a", "ab", "5", "é", "a@evil.example"),
    *([], [None], ["a"], ["a", "b"], ["a", "é"], [1, 1.0], [1, True], [[], ["a"]], [5, "a"], [{"a": 1}, {"a": "b"}]),
    *(MARKERS[0], [MARKERS[0], MARKERS[0]], ["a", MARKERS[1]], {"a": MARKERS[0]}, {"a": 1, "b": [MARKERS[1]]}),
    *({}, {"a": 1}, {"a": "a"}, {"b": None}, {"a": {"a": 5}}, {"a": ["a"], "b": 2, "ab": True}, {"$ref": "#"}),
]  # fmt: skip
"""Values of all kinds, to which every schema is put beside the value that it was made around."""


class Maker:
    """Makes random things from choices: each is a number below some bound, and 0 is the plainest."""

    def __init__(self, draw):
        self.draw = draw

    def below(self, bound):
        return self.draw(_below(bound))

    def pick(self, choices):
        return choices[self.below(len(choices))]

    def some(self, choices, most):
        return list(dict.fromkeys([self.pick(choices) for _ in range(self.below(most + 1))]))

    def value(self, markers=False, depth=3):
        how = self.below(14)
        if how >= 12 and markers:
            return self.pick(MARKERS)
        if how >= 9 and depth:
            return {name: self.value(markers, depth - 1) for name in self.some(NAMES, 3)}
        if how >= 5 and depth:
            return [self.value(markers, depth - 1) for _ in range(self.below(4))]
        return self.pick(self.pick([TEXTS, NUMBERS, [None, True, False], TEXTS, NUMBERS]))

    def near(self, value):
        """*value* itself, or one that differs a little, or any other."""
        how = self.below(5)
        if how < 3:
            return value
        if how == 3 and kind(value) == "number" and abs(value) < 1e9:
            return value + self.pick([1, -1, 0.5])
        if how == 3 and kind(value) == "array" and value:
            return [self.near(value[0]), *value[1:]]
        if how == 3 and kind(value) == "object" and value:
            return {**value, self.pick(NAMES): self.near(self.pick(list(value.values())))}
        return self.value()

    def schema(self, value, depth=3):
        """A schema with something to say about *value*."""
        if depth == 0 or self.below(20) == 0:
            return self.pick([True, {}, False, {"title": "a note"}])
        parts = [self.keyword(value, depth - 1) for _ in range(self.pick([1, 2, 1, 2, 3]))]
        keywords = {keyword: limit for part in parts for keyword, limit in part.items()}
        for bound in ("minContains", "maxContains"):
            if "contains" not in keywords:
                keywords.pop(bound, None)
        return keywords

    def keyword(self, value, depth):
        """A keyword or a few that belong together; in four of five cases of the type of *value*."""
        about = kind(value) if self.below(5) else self.pick(["number", "string", "array", "object"])
        own = {
            "number": self.of_numbers,
            "string": self.of_strings,
            "array": self.of_arrays,
            "object": self.of_objects,
        }.get(about, self.of_any_type)
        return self.pick([own, self.of_any_type, self.combined, own, own, self.of_any_type])(value, depth)

    def of_any_type(self, value, depth):
        keyword = self.pick(["type", "const", "enum", "types", "enum"])
        if keyword == "type":
            return {"type": self.pick([kind(value), *TYPES]) if self.below(2) else kind(value)}
        if keyword == "types":
            return {"type": self.some(TYPES, 3) or [kind(value)]}
        if keyword == "const":
            return {"const": self.near(value)}
        return {"enum": [self.near(value) for _ in range(1 + self.below(3))]}

    def combined(self, value, depth):
        keyword = self.pick(["not", "anyOf", "allOf", "anyOf"])
        if keyword == "not":
            return {"not": self.schema(value, depth)}
        return {keyword: [self.schema(self.near(value), depth) for _ in range(1 + self.below(3))]}

    def of_numbers(self, value, depth):
        keyword = self.pick(["maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "multipleOf"])
        limit = self.near(value)
        if keyword == "multipleOf":
            return {keyword: self.pick(STEPS)}
        return {keyword: limit if kind(limit) == "number" else self.pick(NUMBERS)}

    def of_strings(self, value, depth):
        keyword = self.pick(["pattern", "minLength", "maxLength", "x-lower", "pattern", "pattern"])
        if keyword == "pattern":
            return {keyword: self.pick(PATTERNS)}
        return {keyword: self.pick([True, False]) if keyword == "x-lower" else self.below(4)}

    def of_arrays(self, value, depth):
        held = value if kind(value) == "array" and value else [self.value(depth=1)]
        keyword = self.pick(
            ["items", "contains", "prefixItems", "minItems", "maxItems", "uniqueItems", "x-lower", "contains"]
        )
        if keyword == "contains":
            bounds = {bound: self.below(4) for bound in self.some(["minContains", "maxContains"], 2)}
            return {"contains": self.schema(self.pick(held), depth), **bounds}
        return {
            keyword: self.schema(self.pick(held), depth)
            if keyword == "items"
            else [self.schema(self.pick(held), depth) for _ in range(1 + self.below(3))]
            if keyword == "prefixItems"
            else self.below(4)
            if keyword in ("minItems", "maxItems")
            else self.pick([True, True, True, False])
        }

    def of_objects(self, value, depth):
        held = value if kind(value) == "object" and value else {self.pick(NAMES): None}
        name = self.pick(list(held))
        match self.pick(
            ["properties", "required", "rest", "patterns", "names", "size", "properties", "rest"]
        ):
            case "properties":
                return {
                    "properties": {x: self.schema(held.get(x), depth) for x in [name, *self.some(NAMES, 1)]}
                }
            case "required":
                described = (
                    {"properties": {name: self.schema(held[name], depth)}} if self.below(3) == 2 else {}
                )
                return {"required": self.some([name, *NAMES], 3), **described}
            case "rest":
                return {"additionalProperties": self.schema(held[name], depth) if self.below(2) else False}
            case "patterns":
                return {"patternProperties": {self.pick(["^a", "b", r"\$"]): self.schema(held[name], depth)}}
            case "names":
                return {"propertyNames": self.schema(name, depth)}
            case _:
                return {self.pick(["minProperties", "maxProperties"]): self.below(4)}

    def condition(self, arguments):
        """The `args` of a rule about *arguments*: named ones, optional ones, and the rest."""
        args = {}
        for name in self.some([*arguments, *NAMES], 3) or NAMES[:1]:
            args[name + self.pick(["", "?", ""])] = self.schema(arguments.get(name))
        if self.below(2):
            args["*"] = self.schema(self.pick([*arguments.values(), None]))
        return args


@cache
def _below(bound):
    return st.integers(0, bound - 1)


@st.composite
def values(draw, markers=False):
    """JSON values; with *markers*, at times of what cannot be judged."""
    return Maker(draw).value(markers)


@st.composite
def arguments(draw, markers=False):
    """The arguments of a call; with *markers*, at times one in place of them all."""
    make = Maker(draw)
    if markers and make.below(10) == 9:
        return make.pick(MARKERS)
    return {name: make.value(markers) for name in make.some(NAMES, 4)}


@st.composite
def schemas(draw, value, depth=3):
    """Schemas with something to say about *value*."""
    return Maker(draw).schema(value, depth)


@st.composite
def conditions(draw, arguments):
    """The `args` of rules about *arguments*."""
    return Maker(draw).condition(arguments)

"""
What `gatescore.policy.arguments` must say: the truth of a condition on the arguments of a call.

Written to be read; nothing here is fast. Truth is F < I < T, so that "and" is `min`, "or" is `max`.
A schema is the conjunction of its keywords, those under `allOf` included. A marker stands for a
value that is not there to be judged: whatever is said about it is indeterminate.
"""

from gatescore.truth import FALSE as F
from gatescore.truth import INDETERMINATE as I
from gatescore.truth import TRUE as T
from tests.spec.json_spec import (
    ABOUT,
    PLAIN,
    conjunction,
    equal,
    has_type,
    kind,
    kinds,
    listed,
    marker,
    matches,
    opaque,
    said,
    several,
)

NOT = {F: T, I: I, T: F}
CUSTOM: dict = {}  # keywords of our own, filled by tests: name -> function of the keyword's value and a text


def judge_arguments(args, arguments, effect):
    """Every argument that a rule names, and `*` for all that it does not name."""
    if marker(arguments):
        return I if args else T
    names = {key: key.removesuffix("?") for key in args if key != "*"}
    named = [judge_named(key, args[key], arguments, effect) for key in names]
    others = [judge(args.get("*", True), arguments[x]) for x in arguments.keys() - names.values()]
    return min([T, *named, *others])


def judge_named(key, schema, arguments, effect):
    name = key.removesuffix("?")
    if name == key:
        return judge(schema, arguments[name]) if name in arguments else I
    value = arguments.get(name)  # absent is as good as null
    null = T if value is None else I if marker(value) else F
    return max(null, judge(schema, value)) if effect == "allow" else min(NOT[null], judge(schema, value))


def judge_anywhere(schema, arguments, effect):
    """Every leaf and key (allow), or some (deny, ask), of the types that the schema can judge."""
    found = [x for x in leaves_and_keys(arguments) if marker(x) or decides(schema, kind(x))]
    truths = [I if marker(x) else judge(schema, x) for x in found]
    return min([T, *truths]) if effect == "allow" else max([F, *truths])


def leaves_and_keys(value):
    if marker(value) or kind(value) not in ("array", "object"):
        return [value]
    keys, held = (list(value), value.values()) if kind(value) == "object" else ([], value)
    return keys + [leaf for item in held for leaf in leaves_and_keys(item)]


def judge(schema, value, whole=None):
    """A schema on a value. *whole*: all schemas of the conjunction that it is a part of."""
    if isinstance(schema, bool):
        return T if schema else F
    if marker(value):
        return I if said(schema) else T
    whole = whole or conjunction(schema)
    return min([T, *(judge_keyword(keyword, schema, value, whole) for keyword in said(schema))])


def judge_keyword(keyword, schema, value, whole):
    limit = schema[keyword]
    match keyword:
        case "type":
            return T if has_type(value, limit) else of_other_type(whole)
        case "enum" | "const":
            values = listed(keyword, limit)
            if opaque(value) and kinds(values) & {"array", "object"}:
                return I
            return T if any(equal(value, x) for x in values) else unlisted(values, kind(value))
        case "allOf":
            return min(judge(part, value, whole) for part in limit)
        case "anyOf":
            return max(judge(branch, value) for branch in branches(limit, kind(value)))
        case "not":
            return NOT[judge(limit, value)]
    if keyword in CUSTOM:
        return judge_texts(CUSTOM[keyword], limit, value)
    if kind(value) != ABOUT[keyword]:
        return I
    return judge_own_type(keyword, limit, value, schema, whole)


def judge_own_type(keyword, limit, value, schema, whole):
    """A keyword on a value of the type that it is about."""
    truths = []
    match keyword:
        case "items":
            truths = [judge(limit, x) for x in value[len(schema.get("prefixItems", [])) :]]
        case "prefixItems":
            truths = [judge(x, value[i]) if i < len(value) else I for i, x in enumerate(limit)]
        case "contains":
            truths = [count([judge(limit, x) for x in value], schema)]
        case "uniqueItems":
            unique = not any(equal(x, y) for i, x in enumerate(value) for y in value[:i])
            truths = [T if not limit else I if opaque(value) else T if unique else F]
        case "properties":
            truths = [judge(x, value[p]) if p in value else I for p, x in limit.items()]
        case "patternProperties":
            truths = [
                judge(x, value[p]) for pattern, x in limit.items() for p in value if matches(pattern, p)
            ]
        case "additionalProperties":
            named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
            others = [p for p in value if p not in named and not any(matches(x, p) for x in patterns)]
            truths = [judge(limit, value[p]) for p in others]
        case "propertyNames":
            truths = [judge(limit, p) for p in value]
        case "required":  # where `properties` says more, this adds nothing
            described = {p for part in whole for p in part.get("properties", {})}
            truths = [T if p in value or p in described else F for p in limit]
        case _ if keyword in PLAIN:
            truths = [T if PLAIN[keyword](value, limit) else F]
    return min([T, *truths])  # `minContains` and `maxContains` are parts of `contains`


def count(truths, schema):
    """`contains`: enough that are true, not too many that may be."""
    sure, possible = truths.count(T), len(truths) - truths.count(F)
    least, most = schema.get("minContains", 1), schema.get("maxContains", len(truths))
    enough = T if sure >= least else I if possible >= least else F
    few = T if possible <= most else I if sure <= most else F
    return min(enough, few)


def judge_texts(check, limit, value):
    """A keyword of our own speaks about texts and arrays of texts; it raises where it cannot tell."""
    texts = {"string": [value], "array": value}.get(kind(value), [])
    truths = set()
    for text in texts if kinds(texts) == {"string"} else []:
        try:
            truths.add(T if check(limit, text) else F)
        except ValueError:
            truths.add(I)
    return truths.pop() if len(truths) == 1 else I


def of_other_type(whole):
    """A `type` alone is a condition; beside anything else it says what the rest is about."""
    return I if any(said(part) - {"type", "allOf"} for part in whole) else F


def unlisted(values, type_):
    return F if type_ in kinds(values) or kinds(values) == {"null"} else I


def branches(schemas, type_):
    """Of `anyOf`: a branch about other types has no say where another is about this one."""
    about = [speaks_about(schema) for schema in schemas]
    taken = any(type_ in types for types in about)
    return [x for x, types in zip(schemas, about, strict=True) if type_ in types or not (types and taken)]


def speaks_about(schema):
    """The types that `type` names, else those that the keywords imply; empty where nothing says."""
    parts = conjunction(schema)
    named = [{x.replace("integer", "number") for x in several(p["type"])} for p in parts if "type" in p]
    return set.intersection(*named) if named else {x for p in parts for k in p for x in implied(k, p[k])}


def implied(keyword, limit):
    about = {"string", "array"} if keyword in CUSTOM else {ABOUT[keyword]} if keyword in ABOUT else set()
    return about | kinds(listed(keyword, limit))


def decides(schema, type_, whole=None):
    """Whether any keyword can say true or false of leaves of a type."""
    if isinstance(schema, bool) or not said(schema):
        return True
    whole = whole or conjunction(schema)
    return any(keyword_decides(keyword, schema[keyword], type_, whole) for keyword in said(schema))


def keyword_decides(keyword, limit, type_, whole):
    match keyword:
        case "type":
            return (
                type_ in several(limit)
                or (type_ == "number" and "integer" in limit)
                or of_other_type(whole) == F
            )
        case "enum" | "const":
            return unlisted(listed(keyword, limit), type_) == F
        case "allOf":
            return any(decides(part, type_, whole) for part in limit)
        case "anyOf":
            return any(decides(branch, type_) for branch in limit)
        case "not":
            return decides(limit, type_)
    return type_ == ("string" if keyword in CUSTOM else ABOUT[keyword])

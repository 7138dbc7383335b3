"""
What `gatescore.decide` must say: the verdict of one policy document on one call.

Written to be read, from plain documents and plain lists of events; nothing here is fast. Truth is
F < I < T, so that "and" is `min` and "or" is `max`. Arguments are specified in `args_spec`.
"""

import json
from fnmatch import fnmatchcase

from gatescore.model import Abandoned, Decided, Finished, Proposed, Rejected, SessionStarted, Started
from tests.spec.args_spec import F, I, T, equal, judge_arguments, opaque

EFFECTS = ["allow", "ask", "deny"]
SECOND = 10**9


def verdict(policy, past, call, moment, now):
    if call.invalid or any(isinstance(event, Decided) and event.decision.stop for event in past):
        return "deny"
    matches = {rule["id"]: matching(policy, rule, past, call, moment, now) for rule in policy["rules"]}
    strongest = {
        effect: max([matches[r["id"]] for r in policy["rules"] if effect in r], default=F)
        for effect in EFFECTS
    }
    spent = [
        min(matches[r["id"]], over_budget(r, past, call, moment, now))
        for r in policy["rules"]
        if "limit" in r
    ]
    if max([strongest["deny"], repeats(policy, past, call), *spent]) != F:
        return "deny"
    otherwise_allowed = strongest["allow"] == T or policy["default"] == "allow"
    if strongest["ask"] == T or (strongest["ask"] == I and otherwise_allowed):
        return "ask"
    return "allow" if strongest["allow"] == T else policy["default"]


def layered(policies, past, call, moment, now):
    return max([verdict(policy, past, call, moment, now) for policy in policies], key=EFFECTS.index)


def matching(policy, rule, past, call, moment, now):
    """A rule matches if all of its parts do: the tool, `args`, `after`."""
    effect = next(effect for effect in EFFECTS if effect in rule)
    return min(
        speaks_about(policy, rule[effect], call.name),
        judge_arguments(rule.get("args", {}), seen(call), effect),
        came_before(policy, rule["after"], effect, past, call, moment, now) if "after" in rule else T,
    )


def seen(call):
    """The arguments of an invalid call are no arguments: nothing about them is true or false."""
    return {"$python": "invalid"} if call.invalid else call.arguments


def speaks_about(policy, selector, name):
    if isinstance(selector, dict):
        labels = policy["tools"].get(name, {}).get("labels")
        return I if labels is None else T if set(labels) & set(selector["labels"]) else F
    return T if any(fnmatchcase(name, pattern) for pattern in selector) else F


def executions(past):
    """Each start, with what came after it and its end, which is that of the same attempt of the same call, if any."""
    for position, start in enumerate(past):
        if isinstance(start, Started):
            later = past[position + 1 :]
            own = [e for e in later if isinstance(e, (Started, Finished)) and entry_of(e) == entry_of(start)]
            yield start, later, own[0] if own and isinstance(own[0], Finished) else None


def entry_of(event):
    return id_of(event), event.attempt


def id_of(event):
    return (
        event.call_id if hasattr(event, "call_id") else event.call.call_id if hasattr(event, "call") else None
    )


def in_session(past):
    return any(isinstance(event, SessionStarted) for event in past)


def came_before(policy, after, effect, past, call, moment, now):
    """In an allow: an execution that finished and succeeded. In a deny or ask: one that started."""
    if not in_session(past):
        return I
    message = {id_of(event): event.message for event in past if isinstance(event, Proposed)}
    found = [F]
    for start, later, end in executions(past):
        earlier, counted = start.call, end if effect == "allow" else start
        siblings = moment == "proposal" and None is not message.get(call.call_id) == message.get(
            earlier.call_id
        )
        if counted is None or getattr(counted, "outcome", "succeeded") != "succeeded":
            continue
        if earlier.call_id == call.call_id or siblings:
            continue
        within = after.get("within", {"calls": len(past)})
        since = {id_of(event) for event in [start, *later] if isinstance(event, Started)} - {call.call_id}
        if len(since) > within["calls"] if isinstance(within, dict) else now - counted.time > seconds(within):
            continue
        pairs = [
            (call.arguments.get(mine), earlier.arguments.get(their))
            for mine, their in after.get("same", {}).items()
        ]
        parts = [speaks_about(policy, after["tool"], earlier.name), *map(correlated, pairs)]
        found.append(min(judge_arguments(after.get("args", {}), seen(earlier), effect), *parts))
    return max(found)


def seconds(text):
    return int(text.removesuffix("s")) * SECOND


def correlated(pair):
    mine, theirs = pair
    return (
        I
        if mine is None or theirs is None or opaque(mine) or opaque(theirs)
        else T
        if equal(mine, theirs)
        else F
    )


def over_budget(rule, past, call, moment, now):
    """Whether the units used up, and those that other calls hold, are as many as the limit has."""
    limit = rule["limit"]
    unit = next(unit for unit in ("executions", "calls", "proposals") if unit in limit)
    if unit == "proposals" and moment == "entry":
        return F
    if not in_session(past) or missing_key(rule, call):
        return I
    if unit == "calls" and any(isinstance(event, Started) and id_of(event) == call.call_id for event in past):
        return F  # another attempt of a call that has its unit
    used, held, started = 0, {}, set()
    for event in past:
        recent = "window" not in limit or event.time > now - seconds(limit["window"])
        takes = has_unit(rule, unit, call, event)
        if isinstance(event, Decided) and unit == "proposals":
            used += takes and recent and event.moment == "proposal"
        elif isinstance(event, Decided):
            goes_ahead = event.decision.effect == "allow" or (event.decision.effect, event.moment) == (
                "ask",
                "entry",
            )
            if goes_ahead or event.moment == "entry":
                held[event.call_id] = takes and goes_ahead
        elif isinstance(event, Started) and unit != "proposals":
            used += takes and recent and not (unit == "calls" and id_of(event) in started)
            started.add(id_of(event))
        if isinstance(event, (Started, Rejected, Abandoned)):
            held[id_of(event)] = False
    return T if used + sum(held[other] for other in held if other != call.call_id) >= limit[unit] else F


def missing_key(rule, call):
    return any(
        call.arguments.get(key) is None or opaque(call.arguments[key]) for key in rule["limit"].get("key", [])
    )


def budgets(policy, past, call, moment, now):
    """The rules of which the call takes a unit: each limited rule that may match."""
    return {
        rule["id"]
        for rule in policy["rules"]
        if "limit" in rule and in_session(past) and not missing_key(rule, call)
        if not ("proposals" in rule["limit"] and moment == "entry")
        if "proposals" in rule["limit"] or not call.invalid  # what is invalid will not be executed
        if matching(policy, rule, past, call, moment, now) != F
    }


def stops(policy, past, call, moment, now):
    """Whether the call ends the session: one too many for a limit that says so, and may match."""
    return any(
        min(matching(policy, rule, past, call, moment, now), over_budget(rule, past, call, moment, now)) != F
        for rule in policy["rules"]
        if rule.get("limit", {}).get("then") == "stop" and not (call.invalid and missing_key(rule, call))
        if in_session(past) or not call.invalid
    )


def has_unit(rule, unit, call, event):
    """Whether an event names a unit of the same budget that *call* would take one of."""
    values = [call.arguments[key] for key in rule["limit"].get("key", [])]
    taken = getattr(event, "decision", event)
    named = [
        (b.unit, b.limit.split("/")[-1], *json.loads(json.loads(b.key)[-1]))
        for b in getattr(taken, "budgets", ())
    ]
    return any(equal(list(budget), [unit, rule["id"], *values]) for budget in named)


def repeats(policy, past, call):
    """
    Whether a once-only effect is in flight, was had or may have been had by another call.

    The same call may try again, unless it succeeded: a retry after success is no retry.
    """
    tool = policy["tools"].get(call.name, {})
    if "once_per" not in tool:
        return F
    if not in_session(past):
        return I
    found = [F]
    for start, _, end in executions(past):
        if start.call.call_id == call.call_id:
            counts = end is not None and end.outcome == "succeeded"
        else:
            counts = end is None or end.outcome not in tool.get("safe_to_repeat", [])
        if start.call.name == call.name and counts:
            pairs = [(call.arguments.get(name), start.call.arguments.get(name)) for name in tool["once_per"]]
            found.append(min(map(correlated, pairs)))
    return max(found)

"""A policy, compiled: what the engine reads. Made by `gatescore.policy.compile`, never by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

from gatescore.model import Effect, Outcome
from gatescore.policy.arguments import ArgumentsCondition
from gatescore.policy.declared import ArgumentSchemas
from gatescore.policy.expressions import Expression
from gatescore.policy.names import NamePattern, allows, fold, restricts, split_qualified, tails
from gatescore.truth import FALSE, INDETERMINATE, OR, TRUE, Truths


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tool:
    """
    What a policy says about one tool, under ``tools:``.

    Attributes:
        name: Its exact name.
        labels: Its labels; None where there is no entry, which is not the same as no label.
        once_per: The arguments that make a call of it the same effect; empty for none.
        safe_to_repeat: Outcomes after which the same effect may be tried again.
        schemas: The declared JSON Schemas of its arguments, or None.
    """

    name: NamePattern
    labels: frozenset[str] | None = None
    once_per: tuple[str, ...] = ()
    safe_to_repeat: frozenset[Outcome] = frozenset()
    schemas: ArgumentSchemas | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """
    Which tools a rule speaks about: names and globs, or labels.

    Attributes:
        patterns: Any of them; empty matches nothing.
        labels: Any of them; None where the selector is by name.
        restricting: Read widely, for deny and ask; strictly otherwise.
    """

    patterns: tuple[NamePattern, ...] = ()
    labels: frozenset[str] | None = None
    restricting: bool = True

    def judge(self, server: str | None, name: str, tool: Tool | None) -> Truths:
        """Whether the selector speaks about the tool *name* of *server*, of which *tool* is known."""
        if self.labels is not None:
            if tool is None or tool.labels is None:
                return INDETERMINATE
            return TRUE if tool.labels & self.labels else FALSE
        read = restricts if self.restricting else allows
        truths = FALSE
        for pattern in self.patterns:
            truths = OR[truths][read(pattern, server, name)]
            if truths == TRUE:
                break
        return truths


@dataclass(frozen=True, slots=True, kw_only=True)
class After:
    """
    A condition on what ran before: ``after``.

    Attributes:
        index: Its number in the layer: the key of its table in a history.
        selector, args: Which executions count.
        same: Pairs of argument names, of this call and of the earlier one, whose values are equal.
        nanoseconds, calls: How far back; None for the whole session.
        restricting: In a deny or ask, where an execution counts once it started; in an allow it
            counts when it has finished and succeeded.
    """

    index: int
    selector: Selector
    args: ArgumentsCondition | None
    same: tuple[tuple[str, str], ...]
    nanoseconds: int | None
    calls: int | None
    restricting: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """
    A budget of a rule: ``limit``.

    Attributes:
        name: The layer and the rule: which budget it is.
        units: How many.
        unit: What is counted: ``executions``, ``calls`` or ``proposals``.
        per: Whose: ``session``, ``principal`` or ``tool``.
        key: Arguments whose values have a budget each.
        window: Nanoseconds that a unit stays used; None for good.
        stop: A call over the budget ends the session.
    """

    name: str
    units: int
    unit: str
    per: str
    key: tuple[str, ...]
    window: int | None
    stop: bool

    @property
    def wide(self) -> bool:
        """Whether sessions share the budget."""
        return self.per != "session"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule: an effect, the tools it speaks about, and its conditions."""

    position: int
    id: str
    effect: Effect
    selector: Selector
    args: ArgumentsCondition | None = None
    when: Expression | None = None
    after: After | None = None
    limit: Limit | None = None
    reason: str | None = None
    approval_attempts: int = 1

    @property
    def conditional(self) -> bool:
        """Whether more than the name of the tool decides if the rule matches."""
        return self.args is not None or self.when is not None or self.after is not None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layer:
    """
    One policy document, compiled. A policy is one layer or several.

    Attributes:
        name, version: As written, or None.
        source: The file, or None.
        default: What no rule decides.
        rules: In the order of the document.
        tools: What is known about tools, by exact name.
        afters: Every ``after`` of the rules, by index.
        digest: SHA-256 of what decides: everything but name and version.
        reads_history: Whether a decision can depend on what happened before.
        can_stop: Whether a limit can end a session.
    """

    name: str | None
    version: str | None
    source: str | None
    default: Effect
    rules: tuple[Rule, ...]
    tools: tuple[Tool, ...]
    afters: tuple[After, ...]
    digest: str
    reads_history: bool
    can_stop: bool
    _index: RuleIndex = field(repr=False)

    def rules_for(self, server: str | None, name: str, tool: Tool | None) -> list[tuple[Rule, Truths]]:
        """The rules that may speak about a tool, in order, each with the truth of its selector."""
        found: list[tuple[Rule, Truths]] = []
        for rule in self._index.candidates(name):
            truths = rule.selector.judge(server, name, tool)
            if truths != FALSE:
                found.append((rule, truths))
        return found

    def restricting_tools(self, server: str | None, name: str) -> tuple[Tool, ...]:
        """
        The tools whose labels taint a session, and whose effects are had, when *name* of *server* runs.

        That is the tool of this exact name; without one, all that the name may be another spelling of,
        read as a deny reads names: taint and once-only effects must not be lost by a spelling.
        """
        exact = self.tool(server, name)
        if exact is not None:
            return (exact,)
        return tuple(tool for tool in self._index.may_be(name) if restricts(tool.name, server, name) != FALSE)

    def tool(self, server: str | None, name: str) -> Tool | None:
        """What is known about a tool; None where nothing is, also for other spellings of its name."""
        for tool in self._index.tools.get(name, ()):
            if allows(tool.name, server, name) != FALSE:
                return tool
        return None


class RuleIndex:
    """Finds the few rules and tools that can speak about a name, among any number of them."""

    __slots__ = ("_by_name", "_others", "_tools_by_fold", "tools")

    def __init__(self, rules: tuple[Rule, ...], tools: tuple[Tool, ...]) -> None:
        self._by_name: dict[str, list[Rule]] = {}
        self._others: list[Rule] = []
        self.tools: dict[str, list[Tool]] = {}
        self._tools_by_fold: dict[str, list[Tool]] = {}
        for tool in tools:
            qualified = split_qualified(tool.name.text)
            name = qualified[1] if qualified else tool.name.text
            self.tools.setdefault(name, []).append(tool)
            self._tools_by_fold.setdefault(fold(name), []).append(tool)
        for rule in rules:
            selector = rule.selector
            if selector.labels is not None or not all(pattern.exact for pattern in selector.patterns):
                self._others.append(rule)
                continue
            keys: set[str] = set()
            for pattern in selector.patterns:
                keys |= {pattern.text, fold(pattern.text)} if selector.restricting else {pattern.text}
            for key in keys:
                self._by_name.setdefault(key, []).append(rule)

    def may_be(self, name: str) -> list[Tool]:
        """Every tool that *name* may be another spelling of, in order, each once."""
        folded = fold(name)
        found = [tool for key in (folded, *tails(folded)) for tool in self._tools_by_fold.get(key, ())]
        return list(dict.fromkeys(found))

    def candidates(self, name: str) -> list[Rule]:
        """Every rule whose selector can be other than false for *name*, in order, each once."""
        folded = fold(name)
        found = {rule.position: rule for rule in self._others}
        for key in (name, folded, *tails(folded)):
            for rule in self._by_name.get(key, ()):
                found[rule.position] = rule
        return [found[position] for position in sorted(found)]

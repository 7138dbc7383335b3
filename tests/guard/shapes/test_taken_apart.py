"""What programs make of a guarded callable without knowing it: copies, pickles, parts and partials stay guarded."""

from __future__ import annotations

import copy
import functools
import pickle
import types
from collections.abc import Callable
from typing import Any

import pytest

from gatescore import ApprovalRequest, GuardError, Policy, ToolDenied, guarded_tool
from gatescore.testing import RecordingGuard
from tests.guard.shape_helpers import ENTERED, allowing, assert_executed_once, body, denying


@pytest.fixture(autouse=True)
def nothing_entered() -> None:
    ENTERED.clear()


def cancel(self: object, order_id: str, notify: bool = True) -> str:
    return body(order_id, notify)


class Shop:
    renamed = guarded_tool(cancel, name="portable")
    part = guarded_tool(functools.partialmethod(cancel, notify=False), name="portable")  # type: ignore[call-overload]

    @guarded_tool(name="portable")
    @functools.lru_cache  # noqa: B019 - as programs do
    def cached(self, order_id: str, notify: bool = True) -> str:
        return body(order_id, notify)


class Extended(Shop):
    renamed: Any

    def replaced(self) -> Any:
        return super().renamed


class Replacing(Shop):
    def renamed(self, order_id: str) -> str:  # type: ignore[override]
        return body(order_id)

    def replaced(self) -> Any:
        return super().renamed


@pytest.mark.parametrize("name", ["renamed", "part", "cached"])
def test_a_method_under_another_name_than_its_function_comes_back_guarded(name: str):
    tool = pickle.loads(pickle.dumps(getattr(Shop(), name)))  # noqa: S301 - made in this line
    with pytest.raises(ToolDenied, match="no guard is in charge"):
        tool("814")
    assert [] == ENTERED


def test_a_method_of_a_base_that_an_override_hides_cannot_be_pickled_and_says_so():
    """By its name the override would come back, which is not the tool."""
    assert "portable" == Extended().replaced()._self_parent._self_tool.name
    with pytest.raises(TypeError, match="the tool `portable` cannot be pickled"):
        pickle.dumps(Replacing().replaced())


def test_a_pickle_of_a_method_that_is_not_guarded_any_more_is_refused(monkeypatch: pytest.MonkeyPatch):
    pickled = pickle.dumps(Shop().renamed)
    monkeypatch.setattr(Shop, "renamed", cancel)
    with pytest.raises(pickle.UnpicklingError, match="`renamed` is not guarded here"):
        pickle.loads(pickled)  # noqa: S301 - made above


def test_a_tool_that_names_its_guard_says_how_it_can_be_pickled():
    for tool in (denying().wrap(functools.partial(body)), denying().wrap(body, name="tool")):
        with pytest.raises(TypeError, match=r"leave `guard=` out, and call `gatescore.use\(guard\)`"):
            pickle.dumps(tool)


class ByValue(pickle.Pickler):
    """Takes functions apart that cannot be found by name, as some picklers do for work on other machines."""

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, types.FunctionType):
            return NotImplemented
        raise LookupError(pickle.dumps([obj.__defaults__, obj.__closure__]))


@pytest.mark.parametrize("of_class", [False, True])
def test_a_pickler_that_takes_functions_apart_does_not_get_the_bare_one(of_class: bool, tmp_path: Any):
    def tool(order_id: str = "814") -> str:
        return body(order_id)

    guarded = guarded_tool(tool)
    taken = type("Local", (), {"tool": guarded}).tool if of_class else guarded  # type: ignore[attr-defined]
    with (tmp_path / "tool").open("wb") as file:
        with pytest.raises(LookupError):
            ByValue(file).dump(tool)
        with pytest.raises(TypeError, match="a guarded tool cannot be pickled by value"):
            ByValue(file).dump(taken)


def methods(guard: RecordingGuard) -> Any:
    class Local:
        @guarded_tool(guard=guard, name="method")
        def method(self, order_id: str, notify: bool = True) -> str:
            return body(order_id, notify)

        @guarded_tool(guard=guard, name="class_method")
        @classmethod
        def class_method(cls, order_id: str, notify: bool = True) -> str:
            return body(order_id, notify)

        def bare(self, order_id: str, notify: bool = True) -> str:
            return body(order_id, notify)

    return Local


TAKEN: dict[str, Callable[[Any], Any]] = {
    "called": lambda tool: tool.__func__(tool.__self__, "814"),
    "bound": lambda tool: tool.__func__.__get__(tool.__self__)("814"),
    "made by hand": lambda tool: types.MethodType(tool.__func__, tool.__self__)("814"),
}


@pytest.mark.parametrize("way", TAKEN)
@pytest.mark.parametrize("name", ["method", "class_method", "wrapped"])
def test_the_function_of_a_method_is_guarded_as_the_method_is(name: str, way: str):
    """Those who call back later keep a method as its function and its object."""
    for guard, entered in ((denying(), []), (allowing("method", "class_method", "wrapped"), ["814"])):
        ENTERED.clear()
        shop = methods(guard)()
        tool = guard.wrap(shop.bare, name="wrapped") if name == "wrapped" else getattr(shop, name)
        if entered:
            assert "814 True" == TAKEN[way](tool)
        else:
            with pytest.raises(ToolDenied):
                TAKEN[way](tool)
        assert entered == ENTERED


def test_a_partial_method_of_a_guarded_partial_method_is_guarded():
    guard = allowing()

    class Local:
        tool = guard.wrap(functools.partialmethod(cancel, "814"), name="tool")  # type: ignore[type-var]
        quiet: Any = functools.partialmethod(tool, notify=False)

    assert "814 False" == Local().quiet()
    assert_executed_once(guard, order_id="814", notify=False)


def test_a_partial_method_that_its_class_is_asked_for_is_judged_with_what_is_filled_in():
    guard = allowing()

    class Local:
        tool: Any = guard.wrap(functools.partialmethod(cancel, "814"), name="tool")  # type: ignore[type-var]

    assert "814 True" == Local.tool(Local())
    assert_executed_once(guard, order_id="814", notify=True)
    with pytest.raises(ToolDenied, match="it cannot be called without its object or class"):
        Local.tool(3)
    assert ["814"] == ENTERED


def test_a_copy_of_a_partial_is_judged_with_what_the_copy_has_filled_in():
    guard = allowing()
    orders = ["814"]
    tool: Any = guard.wrap(functools.partial(lambda orders: [*orders], orders), name="tool")
    copied = copy.deepcopy(tool)
    assert ["814"] == tool()
    copied.args[0].append("815")
    assert (["814"], ["814", "815"]) == (tool(), copied())
    assert [["814"], ["814"], ["814", "815"]] == [given["orders"] for given in guard.entries("tool")]


def test_what_is_filled_in_by_keyword_is_judged_as_it_is_at_the_call():
    guard = allowing()
    part = functools.partial(body, "814", notify=True)
    tool = guard.wrap(part, name="tool")
    tool()
    part.keywords["notify"] = False
    assert "814 False" == tool()
    assert [True, False] == [given["notify"] for given in guard.entries("tool")]


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ({}, {"first": 1, "rest": [2]}),
        ({"first": 1, "rest": [2, 3]}, {"first": 1, "rest": [2, 3]}),
        ({"first": 2}, None),
        ({"rest": [3]}, None),
    ],
)
def test_by_name_what_is_filled_in_may_be_named_as_it_is_and_not_replaced(arguments: Any, given: Any):
    guard = allowing()
    guard.wrap(functools.partial(lambda first, *rest: ENTERED.append((first, rest)), 1, 2), name="tool")
    if given is None:
        with pytest.raises(ToolDenied):
            guard.call("tool", arguments)
        assert [] == ENTERED
    else:
        guard.call("tool", arguments)
        assert_executed_once(guard, **given)


def test_a_person_may_edit_what_a_partial_has_left_open():
    def approver(request: ApprovalRequest) -> Any:
        return request.edit({**request.call.arguments, "notify": False})

    policy = Policy(rules=[{"id": "asked", "ask": "tool"}])
    guard = RecordingGuard(policy, approver=approver)
    assert "814 False" == guard.wrap(functools.partial(body, "814"), name="tool")()
    assert [{"order_id": "814", "notify": False}] == guard.entries("tool")


def test_values_for_rest_behind_a_gap_do_not_take_its_place():
    guard = allowing()
    guard.wrap(lambda first, *rest: ENTERED.append(first), name="tool")
    with pytest.raises(ToolDenied):
        guard.call("tool", {"rest": [1]})
    assert [] == ENTERED


def test_of_wrappers_that_pass_on_everything_the_first_that_does_not_is_judged_by():
    def passing_on(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @functools.wraps(body)
    def turned(notify: bool, order_id: str) -> str:
        return body(order_id, notify)

    guard = allowing()
    assert "814 False" == guard.wrap(passing_on(turned), name="tool")(False, "814")
    assert_executed_once(guard, order_id="814", notify=False)


def test_a_property_cannot_be_guarded_from_above():
    with pytest.raises(GuardError, match="put the decorator below it"):
        guarded_tool(property(lambda self: ENTERED.append("entered")))  # type: ignore[call-overload]


def test_what_a_guarded_tool_calls_cannot_be_replaced():
    tool = allowing().wrap(body, name="tool")
    with pytest.raises(AttributeError, match="cannot be replaced"):
        functools.update_wrapper(tool, lambda order_id: order_id)
    assert "814 True" == tool("814")


def test_a_guarded_class_cannot_be_a_base():
    guard = denying()

    class Order: ...

    tool: Any = guard.wrap(Order, name="tool")
    with pytest.raises(TypeError, match="would make its objects without the guard"):

        class Special(tool): ...  # type: ignore[misc]


def test_a_static_method_that_is_defined_again_takes_the_place_of_its_former_self():
    guard = allowing()
    for _ in range(2):

        class Local:
            @guarded_tool(guard=guard, name="tool")
            @staticmethod
            def tool(order_id: str, notify: bool = True) -> str:
                return body(order_id, notify)

    assert "814 True" == guard.call("tool", {"order_id": "814"})

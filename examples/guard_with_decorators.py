"""Decorators alone: a denied tool is never entered, and the session says so in two scores."""

from gatescore import Guard, Policy, ToolDenied, guarded_tool

policy = Policy(
    name="shop",
    rules=[
        {"id": "read", "allow": "get_order"},
        {"id": "no-deletion", "deny": "delete_account", "reason": "Accounts are deleted by people."},
    ],
)
guard = Guard(policy)


@guarded_tool(guard=guard)
def get_order(order_id: str) -> str:
    return f"order {order_id}: shipped"


@guarded_tool(guard=guard)
def delete_account(user: str) -> None:
    raise AssertionError("never entered")


with guard.session("conv-1", principal="user:42") as run:
    assert get_order("814") == "order 814: shipped"
    try:
        delete_account("42")
    except ToolDenied as denied:
        print(denied)

card = run.score()
assert (card.planner.authorized, card.planner.total) == (1, 2)
assert (card.execution.authorized, card.execution.total) == (1, 1)
assert card.execution.passed
assert not card.planner.passed
print("planner", card.planner.score, "execution", card.execution.score)

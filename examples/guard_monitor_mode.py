"""Monitor mode: nothing is blocked, and the record says what would have been."""

from gatescore import Guard, Policy, guarded_tool

guard = Guard(Policy(allowed_tools=["get_order"]), mode="monitor")


@guarded_tool(guard=guard)
def get_order(order_id: str) -> str:
    return f"order {order_id}"


@guarded_tool(guard=guard)
def delete_account(user: str) -> str:
    return f"deleted {user}"


with guard.session() as run:
    get_order("814")
    assert delete_account("42") == "deleted 42"  # it runs: this guard only watches

card = run.score()
assert card.planner.unauthorized[0].tool == "delete_account"
assert card.execution.score == 0.5
kinds = [finding.kind.value for finding in card.reconciliation]
print("would have been refused:", kinds)
assert kinds == ["unenforced"]

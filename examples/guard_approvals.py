"""Where the policy asks, a person answers: only an exact yes is one."""

from gatescore import ApprovalRequest, Guard, Policy, ToolDenied, guarded_tool

policy = Policy(
    rules=[
        {"id": "small", "allow": "refund", "args": {"amount": {"maximum": 100}}},
        {"id": "big", "ask": "refund", "args": {"amount": {"exclusiveMinimum": 100}}},
    ]
)
asked: list[int] = []


def person(request: ApprovalRequest) -> object:
    asked.append(request.arguments["amount"])
    return request.approve(by="ann") if request.arguments["amount"] <= 500 else "yes, sure"


guard = Guard(policy, approver=person)


@guarded_tool(guard=guard)
def refund(amount: int) -> str:
    return f"refunded {amount}"


with guard.session() as run:
    assert refund(50) == "refunded 50"
    assert refund(200) == "refunded 200"
    try:
        refund(900)
    except ToolDenied as denied:
        print(denied)

assert asked == [200, 900]
card = run.score()
assert (card.execution.authorized, card.execution.total) == (2, 2)

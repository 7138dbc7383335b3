"""A limit holds across threads: two executions, whoever is first."""

from concurrent.futures import ThreadPoolExecutor

from gatescore import Guard, Policy, ToolDenied, guarded_tool

policy = Policy(rules=[{"id": "twice", "allow": "charge", "limit": {"executions": 2}}])
guard = Guard(policy)
charged: list[int] = []


@guarded_tool(guard=guard)
def charge(amount: int) -> str:
    charged.append(amount)
    return "charged"


def attempt(amount: int) -> str:
    try:
        return charge(amount)
    except ToolDenied as denied:
        return str(denied)


with guard.session() as run, ThreadPoolExecutor(5) as pool:
    # A pool's threads know no session: `bind` carries it there.
    answers = list(pool.map(run.bind(attempt), range(5)))

print(*answers, sep="\n")
assert len(charged) == 2
card = run.score()
assert (card.execution.authorized, card.execution.total) == (2, 2)
assert (card.planner.authorized, card.planner.total) == (2, 5)

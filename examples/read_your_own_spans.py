"""The guard's spans, through your own tracer provider, hold all that the score needs."""

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gatescore import Guard, Policy, ToolDenied, guarded_tool
from gatescore.score import score_permissions
from gatescore.traces import read_sessions

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))

policy = Policy(allowed_tools=["get_order"])
guard = Guard(policy, tracer_provider=provider, capture="full")


@guarded_tool(guard=guard)
def get_order(order_id: str) -> str:
    return f"order {order_id}"


@guarded_tool(guard=guard)
def delete_account(user: str) -> None:
    raise AssertionError("never entered")


with guard.session("conv-1") as run:
    get_order("814")
    try:
        delete_account("42")
    except ToolDenied as denied:
        print(denied)
print(*(span.name for span in exporter.get_finished_spans()), sep="\n")
card = score_permissions(read_sessions(exporter), policy)
assert card.to_dict()["planner"] == run.score().to_dict()["planner"]
assert card.execution.passed
assert not card.planner.passed

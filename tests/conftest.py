"""
What all tests share: how hard Hypothesis tries.

`default` is quick, for work on the code. `ci` tries more examples, and the same ones every time: a
failure there is the fault of the change, never of chance. It is taken where `CI` is set, and by
`HYPOTHESIS_PROFILE=ci`.
"""

import os

from hypothesis import HealthCheck, settings

# No deadline, and no complaint about slow data: a busy machine is not a fault of the code.
COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("default", COMMON, max_examples=100)
settings.register_profile("ci", COMMON, max_examples=400, derandomize=True, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default"))

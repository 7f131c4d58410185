"""Three counts of the same thing: do they agree?

What a request costs in CPU time, of each server under the same load, counted in three ways:

- the sweep's, from the server's control group during the load;
- the server's own statistics line, from getrusage(2) at the end of its life, over all its requests;
- this program's, with servers that it starts itself.

The first two are of the very same runs. The server's own includes its start and its end and the
first requests, so it is a little above the sweep's where there are few requests. Sweep and
measurement are made one after the other: what the machine does meanwhile is between them.
"""

import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from bench.host.process import Child, last_line
from bench.host.project import ROOT
from bench.measure.comparisons import Plan
from bench.measure.cost import Order, interleaved
from bench.measure.load import GUESTBOOK, REDIRECT
from bench.measure.running import Bench
from bench.records import store
from bench.records.errors import UserError
from bench.records.run import Run
from bench.subjects.declared import LeftOut

WORKLOADS = (REDIRECT, GUESTBOOK)
PROBES = 1
WARM_UP_CONNECTIONS = 100
"""At most. The sweep's warm-up makes two requests on each."""
SECONDS_A_RUN = 60


class Agreement(BaseModel):
    """One server under one load. CPU microseconds per request, medians over the runs."""

    server: str
    workload: str
    sweep: float | None = None
    own: float | None = None
    measured: float | None = None
    due: int = 0
    """Requests that were sent to it in all runs of the sweep, the first ones included."""
    counted: int = 0
    """Requests that it counted itself."""
    problem: str = ""

    @property
    def holds(self) -> bool:
        """Whether there are three figures, and every request was counted."""
        return not self.problem and self.due == self.counted

    def ratio(self, to: float | None) -> float | None:
        """One of the others over the sweep's."""
        return to / self.sweep if to and self.sweep else None


def measure(plan: Plan, bench: Bench) -> list[Agreement]:
    """All servers, with a connection for each request. Raises LeftOut or Interrupted."""
    servers = plan.servers()
    if plan.programs != ROOT:
        raise LeftOut(
            "agreement is left out: the sweep measures the programs in the project's folder"
        )
    runs = _swept(plan, bench)
    orders = [
        Order(server, plan.load(workload, keep_alive=False))
        for workload in WORKLOADS
        for server in servers
    ]
    found = []
    for order, cell in zip(orders, interleaved(orders, plan.runs, bench), strict=True):
        workload = order.load.workload.name
        its = [r for r in runs if (r.subject, r.workload) == (order.subject.name, workload)]
        agreement = compare(order.subject.name, workload, its)
        if cell.holds:
            agreement.measured = cell.median()
        else:
            agreement.problem = agreement.problem or "; ".join(cell.problems)
        found.append(agreement)
    return found


def compare(server: str, workload: str, runs: Sequence[Run]) -> Agreement:
    """The two counts of a sweep's runs. Pure."""
    found = Agreement(server=server, workload=workload)
    bad = next((run for run in runs if run.state != "held"), None)
    if bad or not runs:
        reason = bad.reason.text if bad and bad.reason else "it was not measured"
        found.problem = f"the sweep has no figure: {reason}"
        return found
    costs = [run.process.cpu_us_per_request for run in runs if run.process]
    said = [run.server_statistics for run in runs if run.server_statistics]
    own = [one.cpu_us_per_request for one in said if one.cpu_us_per_request is not None]
    if len(costs) < len(runs) or len(own) < len(runs):
        found.problem = "some runs lack a figure"
        return found
    found.sweep, found.own = statistics.median(costs), statistics.median(own)
    found.counted = sum(one.requests or 0 for one in said)
    found.due = sum(
        PROBES + 2 * min(run.concurrency, WARM_UP_CONNECTIONS) + run.requests for run in runs
    )
    return found


def _swept(plan: Plan, bench: Bench) -> list[Run]:
    """The runs of a sweep of the same load. It is a program of its own, with its own Redis."""
    with tempfile.TemporaryDirectory(prefix="zerohttpd-agreement-") as folder:
        words = {
            "--servers": ",".join(server.name for server in plan.servers()),
            "--workloads": ",".join(workload.name for workload in WORKLOADS),
            "--levels": str(min(plan.concurrency, plan.requests)),
            "--requests": str(plan.requests),
            "--runs": str(plan.runs),
            "--results": folder,
        }
        command = [sys.executable, "-m", "bench", "sweep"]
        command += [word for pair in words.items() for word in pair]
        bench.say("agreement: a sweep of all servers")
        # This process is on the load's CPUs only; the sweep shall place itself as it always does.
        cpus = sorted({*bench.placement.server, *bench.placement.load})
        child = Child(command, cpus, cwd=ROOT)
        runs = len(WORKLOADS) * plan.runs * len(plan.servers())
        try:
            if not child.wait(SECONDS_A_RUN * runs, bench.watch):
                raise LeftOut("agreement is left out: the sweep was not done in time")
        finally:
            child.end(patience=20)
        file = next(Path(folder).glob("*/results.json"), None)
        if file is None:
            raise LeftOut(f"agreement is left out: the sweep said: {last_line(child.stderr)}")
        try:
            return store.load(file).runs
        except UserError as error:
            raise LeftOut(f"agreement is left out: {error}") from error

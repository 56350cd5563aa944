"""How the fake bridge's runs end, and what becomes of their sessions."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bridge import Run

# Jobs of each session so far; -1 if it has expired.
sessions: dict[str, int] = {}


def begin_session(job: dict[str, Any]) -> tuple[str, str] | None:
    """Counts a job of its session. Gives status and code of a job that is turned away."""
    wish = job.get("session")
    if wish is None:
        return None
    name = wish["id"]
    if sessions.get(name) == -1 and wish.get("if_gone") != "new":
        return ("rejected", "session_expired")
    if wish.get("reset") or sessions.get(name) == -1:
        sessions.pop(name, None)
    sessions[name] = sessions.get(name, 0) + 1
    return None


def outcome_of(run: "Run", status: str, code: str) -> dict[str, Any]:
    """The outcome of a run that ends now."""
    outcome: dict[str, Any] = {"status": status, "stdout": run.stdout, "stderr": "", "displays": run.displays}
    outcome |= {"artifacts": run.artifacts, "usage": {"wall_ms": 1.5, "cpu_ms": 1.0, "memory_bytes": 7}}
    outcome["from_the_future"] = True
    if code:
        error = {"code": code, "message": f"it is {code}", "safe_to_retry": False}
        outcome["error"] = error | ({"exception": "E", "traceback": "T"} if code == "code_raised" else {})
    if (wish := run.job.get("session")) and status != "rejected":
        fresh = sessions[wish["id"]] == 1
        outcome["session"] = {"id": wish["id"], "fresh": fresh, "alive": not wish.get("close", False)}
        if wish.get("close"):
            del sessions[wish["id"]]
        if "gone" in run.job.get("code", ""):
            sessions[wish["id"]] = -1
    return outcome

"""Every fault as an HTTP answer: one table over ``Reason``, total by test, for one middleware."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from contract.faults import Fault, FieldError, Reason

# Official clients honour Retry-After up to here; beyond it they fall back to short pauses.
HONOURED_RETRY_S = 60


@dataclass(frozen=True, kw_only=True)
class Problem:
    """How one reason is told.

    Args:
        code: what clients branch on; unique to the case, stable for ever.
        documentation: what it means and what to do about it.
        text: the published first sentence; None where the fault's own message is the text.
        explained: the fault's message may follow the published text. False where it could tell one
            account about another, or what failed inside.
        retry_after_s: when the fault names none; None means no Retry-After at all.
        retry_helps: False makes the answer carry ``x-should-retry: false``.
    """

    status: int
    code: int
    documentation: str
    text: str | None = None
    explained: bool = True
    retry_after_s: float | None = None
    retry_helps: bool = False


PROBLEMS: dict[Reason, Problem] = {
    Reason.REQUEST_INVALID: Problem(
        status=400,
        code=10021,
        documentation="A field of the path, the query or the body is not what it must be; each "
        "error's source.pointer names the field and its message the right form.",
    ),
    Reason.VERSION_AMBIGUOUS: Problem(
        status=400,
        code=10392,
        documentation="The prefix fits several versions of the Worker; give more of the UUID.",
    ),
    Reason.RUNTIME_UNSUPPORTED: Problem(
        status=400,
        code=10395,
        text="This Worker does not support runtime profiling.",
        explained=False,
        documentation="The runtime that hosts this Worker has no profiler to attach to.",
    ),
    Reason.METHOD_NOT_ALLOWED: Problem(
        status=405,
        code=10405,
        documentation="The path exists, the method does not; the Allow header lists those that do.",
    ),
    Reason.PROFILE_INVALID: Problem(
        status=500,
        code=10509,
        documentation="A metal delivered bytes that are not a valid profile; they were not kept.",
    ),
    Reason.UNAUTHENTICATED: Problem(
        status=401,
        code=10000,
        text="Authentication error",
        explained=False,
        documentation="No token, or none that is known: send Authorization: Bearer <token>.",
    ),
    Reason.PERMISSION_MISSING: Problem(
        status=403,
        code=9109,
        documentation="The token is known but does not carry the permission the message names, or "
        "belongs to another account.",
    ),
    Reason.PROFILING_DISABLED: Problem(
        status=403,
        code=10390,
        documentation="Profiling is not enabled for the account; an operator can enable it.",
    ),
    Reason.PEER_FORBIDDEN: Problem(
        status=403,
        code=10511,
        documentation="A machine of the fleet spoke for another one and was refused.",
    ),
    Reason.ROUTE_UNKNOWN: Problem(
        status=404, code=7003, documentation="No route of the API has this path."
    ),
    Reason.WORKER_UNKNOWN: Problem(
        status=404,
        code=10007,
        text="This Worker does not exist on your account.",
        explained=False,
        documentation="Neither the name nor the id of a Worker of this account.",
    ),
    Reason.VERSION_UNKNOWN: Problem(
        status=404,
        code=10391,
        documentation="The Worker exists, the version does not; list its versions.",
    ),
    Reason.SESSION_UNKNOWN: Problem(
        status=404, code=10402, documentation="No profile session of this account has this id."
    ),
    Reason.CAPTURE_UNKNOWN: Problem(
        status=404, code=10403, documentation="The session has no such capture."
    ),
    Reason.RECORD_UNKNOWN: Problem(
        status=404,
        code=10404,
        documentation="Operators' API: there is no account, token, metal or datacenter of this "
        "name; the message says which.",
    ),
    Reason.NO_RECENT_EXECUTION: Problem(
        status=404,
        code=10393,
        text="No recent executions were found for this Worker.",
        documentation="A profile observes production: the version must have run within the last "
        "minute or so. Send it traffic and ask again.",
    ),
    Reason.NOT_LOADED: Problem(
        status=404,
        code=10394,
        text="The Worker has no loaded isolate in its recent execution locations.",
        explained=False,
        documentation="It ran lately, but no isolate of it that may be profiled is loaded now.",
    ),
    Reason.ACTOR_INACTIVE: Problem(
        status=404,
        code=10400,
        documentation="The Durable Object must be active, run the version asked for, and be in a "
        "namespace of this Worker.",
    ),
    Reason.IDEMPOTENCY_KEY_REUSED: Problem(
        status=409,
        code=10412,
        documentation="The Idempotency-Key was used within the last day for another body. A new "
        "request needs a new key; nothing was done.",
    ),
    Reason.RECORD_EXISTS: Problem(
        status=409,
        code=10414,
        documentation="Operators' API: there is one of this id already; nothing was changed.",
    ),
    Reason.SESSION_NOT_READY: Problem(
        status=409,
        code=10409,
        retry_after_s=1,
        retry_helps=True,
        documentation="The session is still at work; its profile comes later.",
    ),
    Reason.SESSION_CANCELLED: Problem(
        status=409,
        code=10410,
        documentation="The session was cancelled and what it had sampled dropped.",
    ),
    Reason.CAPTURE_STOPPED: Problem(
        status=409,
        code=10411,
        documentation="The capture was stopped before it had a profile.",
    ),
    Reason.BODY_TOO_LARGE: Problem(
        status=413,
        code=10027,
        documentation="The request body exceeds the limit the message names.",
    ),
    Reason.PROFILE_TOO_LARGE: Problem(
        status=500,
        code=10510,
        documentation="The profile exceeded a bound the message names; ask for a shorter one.",
    ),
    Reason.ACCOUNT_QUOTA: Problem(
        status=429,
        code=10399,
        retry_after_s=30,
        retry_helps=True,
        documentation="The account has used up its quota; Retry-After says until when.",
    ),
    Reason.ISOLATES_BUSY: Problem(
        status=429,
        code=10398,
        retry_after_s=5,
        retry_helps=True,
        documentation="Every isolate of the version is being captured; Retry-After is when the "
        "first of those captures ends.",
    ),
    Reason.VERSION_SUSPENDED: Problem(
        status=503,
        code=10415,
        retry_after_s=60,
        retry_helps=True,
        documentation="Most of the version's latest captures failed in a way that may come from "
        "profiling it, so no more are ordered for now; Retry-After is when one is tried again.",
    ),
    Reason.STREAMS_FULL: Problem(
        status=429,
        code=10413,
        retry_after_s=5,
        retry_helps=True,
        documentation="Too many event streams are open; the message names the limit. Close some, "
        "or ask for the session itself now and then.",
    ),
    Reason.DISPATCH_OFF: Problem(
        status=503,
        code=10397,
        text="Worker profiling is unavailable in this environment.",
        explained=False,
        retry_after_s=30,
        documentation="Profiling is switched off, or no metal has ever reported here.",
    ),
    Reason.STORE_UNAVAILABLE: Problem(
        status=503,
        code=10500,
        retry_after_s=1,
        retry_helps=True,
        documentation="The control plane cannot reach what it stores things in. Nothing was done.",
    ),
    Reason.AGENT_UNREACHABLE: Problem(
        status=503,
        code=10502,
        retry_after_s=5,
        retry_helps=True,
        documentation="The metals that run this version did not answer.",
    ),
    Reason.AGENT_RESTARTED: Problem(
        status=503,
        code=10503,
        retry_after_s=1,
        retry_helps=True,
        documentation="The agent on the metal restarted while it sampled.",
    ),
    Reason.TARGET_EXITED: Problem(
        status=503,
        code=10504,
        retry_after_s=1,
        retry_helps=True,
        documentation="The isolate, or the runtime that hosted it, went away while it was sampled.",
    ),
    Reason.INSPECTOR_LOST: Problem(
        status=503,
        code=10505,
        retry_after_s=5,
        retry_helps=True,
        documentation="The inspector session was cut, or another client took the isolate over.",
    ),
    Reason.DEADLINE_PASSED: Problem(
        status=504, code=10506, documentation="The session did not end within its deadline."
    ),
    Reason.RUNTIME_TIMEOUT: Problem(
        status=504,
        code=10507,
        documentation="The runtime did not answer in time; a synchronous loop can do that.",
    ),
    Reason.CAPTURE_LOST: Problem(
        status=504,
        code=10508,
        documentation="The metal fell silent while it sampled and did not come back in time.",
    ),
    Reason.RUNTIME_START_FAILED: Problem(
        status=500,
        code=10396,
        text="The Worker runtime could not start profiling. Please try again.",
        explained=False,
        retry_helps=True,
        documentation="The runtime refused or failed to start its profiler.",
    ),
    Reason.INTERNAL: Problem(
        status=500,
        code=10501,
        text="Internal error",
        explained=False,
        documentation="A fault of ours. The X-Request-Id finds it in the logs.",
    ),
}


def message(fault: Fault) -> str:
    """Put the published text first, then the fault's explanation where one is allowed."""
    problem = PROBLEMS[fault.reason]
    if problem.text is None:
        return fault.message
    if not problem.explained or not fault.message or fault.message == problem.text:
        return problem.text
    if fault.message.startswith(problem.text):
        return fault.message
    return f"{problem.text} {fault.message}"


def answer(fault: Fault) -> web.Response:
    """Build the failure envelope with its headers."""
    problem = PROBLEMS[fault.reason]
    url = f"/problems/{fault.reason.value}"
    told = [FieldError(pointer="", message=message(fault))] if not fault.fields else fault.fields
    errors: list[dict[str, Any]] = [
        {"code": problem.code, "message": one.message, "documentation_url": url} for one in told
    ]
    for error, field in zip(errors, fault.fields, strict=False):
        error["source"] = {"pointer": field.pointer}
    headers: dict[str, str] = {}
    retry_after_s = fault.retry_after_s
    if retry_after_s is None:
        retry_after_s = problem.retry_after_s
    if retry_after_s is not None:
        headers["Retry-After"] = str(max(0, math.ceil(retry_after_s)))
    if not problem.retry_helps or (retry_after_s or 0) > HONOURED_RETRY_S:
        headers["x-should-retry"] = "false"
    body = {"success": False, "errors": errors, "messages": [], "result": None}
    return web.Response(
        status=problem.status,
        body=json.dumps(body).encode(),
        content_type="application/json",
        headers=headers,
    )


async def show_problem(request: web.Request) -> web.Response:
    """Answer what ``documentation_url`` leads to."""
    try:
        problem = PROBLEMS[Reason(request.match_info["reason"])]
    except ValueError:
        raise Fault(Reason.ROUTE_UNKNOWN, "There is no problem of this name.") from None
    return web.Response(
        text=f"{problem.code} (HTTP {problem.status})\n\n{problem.documentation}\n",
        content_type="text/plain",
    )

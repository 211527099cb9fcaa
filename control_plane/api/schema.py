"""What callers may send: models that refuse unknown fields, and one error per wrong field."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from contract import ids
from contract.faults import Fault, FieldError, Reason
from contract.messages import Actor, ProfileType
from control_plane.session import MAX_ISOLATES
from pprof import formats
from pprof.diff import Normalize
from pprof.flame import DEFAULT_MAX_NODES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp import web
    from pydantic_core import ErrorDetails

MIN_DURATION_MS = 1_000
MAX_DURATION_MS = 50_000
MAX_LIST = 100

Model = TypeVar("Model", bound=BaseModel)

NamespaceId = Annotated[str, Field(pattern=ids.NAMESPACE_ID.pattern)]
LabelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
Format = Literal[
    "pprof",
    "pprof.gz",
    "cpuprofile",
    "speedscope",
    "folded",
    "flamegraph",
    "top",
    "markdown",
]
SampleType = Annotated[str, Field(pattern=r"^[a-z_]{1,64}$")]
MaxNodes = Annotated[int, Field(ge=1, le=1_000_000)]
AnnotationName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_./-]{1,128}$")]
LabelText = Annotated[str, Field(max_length=256)]
ActorId = Annotated[str, Field(pattern=ids.ACTOR_ID.pattern)]
Datacenter = Annotated[str, Field(pattern=ids.METAL_ID.pattern)]
ActorName = Annotated[str, Field(min_length=1, max_length=1024)]


class ProfileBody(BaseModel):
    """Body of the synchronous profile."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    duration_ms: Annotated[int, Field(ge=MIN_DURATION_MS, le=MAX_DURATION_MS)]
    profile_type: Literal["cpu", "heap"] = "cpu"
    namespace_id: NamespaceId | None = None
    actor_id: ActorId | None = None

    @property
    def actor(self) -> Actor | None:
        """The Durable Object asked for; the two ids come together or not at all."""
        if self.namespace_id is None or self.actor_id is None:
            return None
        return Actor(namespace_id=self.namespace_id, actor_id=self.actor_id)

    @property
    def kind(self) -> ProfileType:
        """The profile type as the product's value."""
        return ProfileType(self.profile_type)


class SessionBody(ProfileBody):
    """Body that creates a session."""

    actor_name: ActorName | None = None
    worker: Annotated[str, Field(min_length=1, max_length=255)]
    version: Annotated[str, Field(min_length=1, max_length=36)] = ids.LATEST
    sampling_interval_us: Annotated[int, Field(ge=100, le=100_000)] = 1_000
    labels: Annotated[dict[LabelName, LabelText], Field(max_length=16)] = {}
    isolates: Annotated[int, Field(ge=1, le=MAX_ISOLATES)] = 1
    datacenters: Annotated[list[Datacenter], Field(min_length=1, max_length=64)] | None = None


class PageQuery(BaseModel):
    """Paging by number. Unknown parameters are let by: published clients send orderings we lack."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    page: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    per_page: Annotated[int, Field(ge=1, le=MAX_LIST)] = 20

    @property
    def offset(self) -> int:
        """How many entries the pages before this one hold."""
        return (self.page - 1) * self.per_page


class ProfileQuery(BaseModel):
    """How a stored profile is handed out. What only some formats know is refused for the others."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Format = "pprof"
    sample_type: SampleType = ""
    max_nodes: MaxNodes = DEFAULT_MAX_NODES


class DiffQuery(BaseModel):
    """How two profiles are compared."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["top", "flamegraph", "markdown"] = "top"
    normalize: Normalize = Normalize.TOTAL
    sample_type: SampleType = ""
    max_nodes: MaxNodes = DEFAULT_MAX_NODES


def body(model: type[Model], raw: Any) -> Model:
    """Check a parsed body.

    Raises:
        Fault: request_invalid with every field that is wrong, once each, in the body's order.
    """
    if not isinstance(raw, dict):
        raise invalid([FieldError(pointer="", message="The body must be one JSON object.")])
    extra = [*_unpaired(raw, model), *_of_one_isolate(raw, model)]
    return _checked(model, raw, prefix="/", extra=extra)


def session_body(raw: Any) -> SessionBody:
    """Check the body that creates a session: as ``body``, with the shapes paths are held to."""
    named = raw if isinstance(raw, dict) else {}
    wrong: list[FieldError] = []
    checked: SessionBody | None = None
    try:
        checked = body(SessionBody, raw)
    except Fault as fault:
        wrong.extend(fault.fields)
    known = {field.pointer for field in wrong}
    for name, shape in (("worker", worker), ("version", version)):
        text = named.get(name)
        if isinstance(text, str) and f"/{name}" not in known:
            wrong.extend(shape(text, f"/{name}"))
    if checked is None or wrong:
        raise invalid(wrong)
    return checked


def session_id(request: web.Request, part: str = "session_id") -> str:
    """Return a session id of the path; what can't be one is unknown like one that never was."""
    text = request.match_info[part]
    if not ids.is_uuid(text):
        raise Fault(Reason.SESSION_UNKNOWN, "This account has no such profile session.")
    return text


def profile_query(request: web.Request) -> ProfileQuery:
    """Check how a stored profile is wanted."""
    asked = query(ProfileQuery, request.query)
    form = formats.FORMATS.get(asked.format)
    _fitting(request, asked.format, form.takes if form is not None else frozenset())
    return asked


def diff_query(request: web.Request) -> DiffQuery:
    """Check how two profiles are to be compared."""
    asked = query(DiffQuery, request.query)
    _fitting(request, asked.format, formats.DIFF_FORMATS[asked.format].takes)
    return asked


def _fitting(request: web.Request, format_: str, takes: frozenset[str]) -> None:
    wrong = [name for name in request.query if name not in {"format", *takes}]
    if wrong:
        told = f"Has no meaning for format {format_}."
        raise invalid([FieldError(pointer=f"query/{name}", message=told) for name in wrong])


def capture(request: web.Request) -> int:
    """Return the capture's number of the path; what can't be one is unknown like one never made."""
    text = request.match_info["capture"]
    if not re.fullmatch("[1-9][0-9]{0,5}", text):
        raise Fault(Reason.CAPTURE_UNKNOWN, "The session has no such capture.")
    return int(text)


def query(model: type[Model], raw: Mapping[str, str]) -> Model:
    """Check query parameters; pointers read ``query/<name>``."""
    return _checked(model, dict(raw), prefix="query/", extra=_twice(raw, model))


def worker(text: str, pointer: str = "path/worker") -> list[FieldError]:
    """Say what is wrong with a worker's name or id; nothing when all is well."""
    if ids.WORKER_NAME.fullmatch(text):
        return []
    return [FieldError(pointer=pointer, message="Must be a Worker's id (32 hex digits) or name.")]


def version(text: str, pointer: str = "path/version") -> list[FieldError]:
    """Say what is wrong with a version; nothing when all is well."""
    folded = text.lower()
    if folded == ids.LATEST or (ids.VERSION_PREFIX.fullmatch(folded) and _fits_a_uuid(folded)):
        return []
    return [
        FieldError(
            pointer=pointer,
            message="Must be a UUID, a prefix of one of at least 8 characters, or 'latest'.",
        )
    ]


def invalid(fields: list[FieldError]) -> Fault:
    """One fault for everything wrong with a request."""
    return Fault(
        Reason.REQUEST_INVALID,
        "; ".join(f"{one.pointer}: {one.message}" for one in fields),
        fields=tuple(fields),
    )


def _fits_a_uuid(text: str) -> bool:
    shape = re.sub("[0-9a-f]", "x", "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")
    return len(text) <= len(shape) and re.sub("[0-9a-f]", "x", text) == shape[: len(text)]


def _unpaired(raw: dict[str, Any], model: type[BaseModel]) -> list[FieldError]:
    # Apart from the model's own checks, so that it is told beside other faults too.
    ways = [name for name in ("actor_id", "actor_name") if name in model.model_fields]
    given = [name for name in ways if raw.get(name) is not None]
    if len(given) > 1:
        return [FieldError(pointer="/actor_name", message="Must not be given beside actor_id.")]
    if (raw.get("namespace_id") is not None) == bool(given):
        return []
    if given:
        message = f"Required together with {given[0]}."
        return [FieldError(pointer="/namespace_id", message=message)]
    choice = "" if len(ways) == 1 else ", unless actor_name is given"
    message = f"Required together with namespace_id{choice}."
    return [FieldError(pointer="/actor_id", message=message)]


def _of_one_isolate(raw: dict[str, Any], model: type[BaseModel]) -> list[FieldError]:
    asked = raw.get("isolates", 1)
    several = isinstance(asked, int) and asked > 1
    if "isolates" not in model.model_fields or not several or raw.get("namespace_id") is None:
        return []
    message = "Must be 1 with namespace_id: a Durable Object lives in one isolate."
    return [FieldError(pointer="/isolates", message=message)]


def _twice(raw: Mapping[str, str], model: type[BaseModel]) -> list[FieldError]:
    # The items of a multidict are all that was given; as a dict it has the first of each name.
    named = [name for name, _ in raw.items() if name in model.model_fields]
    return [
        FieldError(pointer=f"query/{name}", message="Must be given once.")
        for name in dict.fromkeys(named)
        if named.count(name) > 1
    ]


def _checked(
    model: type[Model], raw: dict[str, Any], *, prefix: str, extra: list[FieldError]
) -> Model:
    found: dict[str, FieldError] = {}
    checked: Model | None = None
    try:
        checked = model.model_validate(raw)
    except ValidationError as error:
        for one in error.errors(include_url=False, include_context=True, include_input=False):
            pointer = prefix + "/".join(_escaped(part) for part in one["loc"])
            found.setdefault(pointer, FieldError(pointer=pointer, message=_told(one)))
    for field in extra:
        found.setdefault(field.pointer, field)
    if checked is None or found:
        raise invalid(list(found.values()))
    return checked


def _escaped(part: int | str) -> str:
    # A caller's own key may be long or hold anything; a pointer is not the place to echo it whole.
    return str(part)[:64].replace("~", "~0").replace("/", "~1")


# pydantic's error types, in the words of this API; {} names are of the error's context.
_TOLD = {
    "missing": "Required.",
    "extra_forbidden": "Unknown field.",
    "enum": "Must be {expected}.",
    "too_long": "Must have at most {max_length} entries.",
    "too_short": "Must have at least {min_length} entry.",
    "list_type": "Must be a list.",
    "dict_type": "Must be an object.",
    "int_type": "Must be a whole number.",
    "int_parsing": "Must be a whole number.",
    "int_from_float": "Must be a whole number.",
    "float_type": "Must be a number.",
    "greater_than": "Must be more than {gt}.",
    "greater_than_equal": "Must be at least {ge}.",
    "less_than_equal": "Must be at most {le}.",
    "literal_error": "Must be {expected}.",
    "string_type": "Must be a string.",
    "string_pattern_mismatch": "Must match {pattern}.",
    "string_too_short": "Must not be empty.",
    "string_too_long": "Must be at most {max_length} characters.",
    "told": "{message}",
}


def _told(error: ErrorDetails) -> str:
    template = _TOLD.get(error["type"])
    return error["msg"] if template is None else template.format(**error.get("ctx", {}))

"""What stands where in the development fleet. Ids are fixed, so examples can name them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Account:
    """An owner of Workers."""

    name: str
    account_id: str


@dataclass(frozen=True, kw_only=True)
class Namespace:
    """A Durable Object namespace. ``unique_key``: what the runtime knows it by."""

    namespace_id: str
    unique_key: str
    class_name: str
    binding: str


@dataclass(frozen=True, kw_only=True)
class Version:
    """One immutable upload of a Worker.

    Args:
        tag: how people and tests call it; unique within the Worker.
        version_id: its UUID.
        modules: (module name, path under ``workers/``), entry point first; TypeScript is bundled.
        rate: requests per second sent to each place it stands; 0 is loaded and never run.
        requests: sent to each place in all, from the start; None: no end.
        paths: request paths, taken in turn.
    """

    tag: str
    version_id: str
    modules: tuple[tuple[str, str], ...]
    rate: float
    requests: int | None = None
    paths: tuple[str, ...] = ("/",)


@dataclass(frozen=True, kw_only=True)
class Worker:
    """A program with its versions. ``also`` names accounts that run in the same isolates."""

    name: str
    worker_id: str
    account: Account
    versions: tuple[Version, ...]
    namespaces: tuple[Namespace, ...] = ()
    also: tuple[Account, ...] = ()

    def version(self, tag: str) -> Version:
        """Find the version of that tag; KeyError when there is none."""
        return {version.tag: version for version in self.versions}[tag]


@dataclass(frozen=True, kw_only=True)
class Place:
    """One version of one Worker in one ``workerd`` process."""

    worker: Worker
    version: Version

    @property
    def service(self) -> str:
        """Its name in the runtime, unique in the process."""
        return f"{self.worker.name}-{self.version.tag}"


@dataclass(frozen=True, kw_only=True)
class Process:
    """One ``workerd`` process. Its isolates share one event loop, so what runs hot stands alone."""

    runtime_id: str
    places: tuple[Place, ...]


@dataclass(frozen=True, kw_only=True)
class Metal:
    """One server: an agent and its runtime processes."""

    metal_id: str
    datacenter: str
    processes: tuple[Process, ...]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The whole fleet."""

    accounts: tuple[Account, ...]
    workers: tuple[Worker, ...]
    metals: tuple[Metal, ...] = field(default=())

    def worker(self, name: str) -> Worker:
        """Find the Worker of that name; KeyError when there is none."""
        return {worker.name: worker for worker in self.workers}[name]


HARBOUR = Account(name="harbour", account_id="ab6ead33d95250c8a3a7d7904640b8b6")
ORCHARD = Account(name="orchard", account_id="b12e5365df54df6e615826c88cc31ed6")


def _one(path: str) -> tuple[tuple[str, str], ...]:
    return (("worker.js", path),)


REPLACER = Worker(
    name="replacer",
    worker_id="f2236c52980e2c323c9e388ce9cd2abb",
    account=HARBOUR,
    versions=(
        Version(
            tag="before",
            version_id="2c682ea8-83bb-4389-b1e7-bd02a99e8cba",
            modules=_one("replacer/before.js"),
            rate=12,
        ),
        Version(
            tag="after",
            version_id="071faf59-9d97-4e12-81ac-c06b9085fb9f",
            modules=_one("replacer/after.js"),
            rate=12,
        ),
    ),
)
METRICS = Worker(
    name="metrics",
    worker_id="8952a824a71d8abd89e9af35b2128e49",
    account=HARBOUR,
    versions=(
        Version(
            tag="before",
            version_id="f067944d-c5f2-4f88-baa9-20f6b7aab26b",
            modules=(("worker.js", "metrics/before.js"), ("metrics.js", "metrics/metrics.js")),
            rate=20,
        ),
        Version(
            tag="after",
            version_id="be92a27e-9fa2-4463-9214-e311868f4acb",
            modules=_one("metrics/after.js"),
            rate=10,
        ),
    ),
)
CHECKOUT = Worker(
    name="checkout",
    worker_id="3fc22fd45bfd3850d45b099b224816b5",
    account=HARBOUR,
    versions=(
        Version(
            tag="first",
            version_id="1da0143b-4d31-4bb3-8699-d976539e0d56",
            modules=_one("checkout/first.js"),
            rate=5,
        ),
        Version(
            tag="retired",
            version_id="be9b2858-7910-4822-96c9-aee68bc7ae9a",
            modules=_one("checkout/first.js"),
            rate=2,
            requests=3,
        ),
        Version(
            tag="second",
            version_id="f9d30a4a-a41f-49a5-901e-9e6ef733dd09",
            modules=_one("checkout/second.js"),
            rate=0,
        ),
    ),
)
CATALOG = Worker(
    name="catalog",
    worker_id="d1428f1e8930a593bc9e97667aa28832",
    account=HARBOUR,
    versions=(
        Version(
            tag="live",
            version_id="cb651f95-d78f-4c3f-ae2e-a691f6bc776b",
            modules=_one("catalog/index.ts"),
            rate=6,
        ),
    ),
)
COUNTER = Worker(
    name="counter",
    worker_id="23eb5addb3368d76741d108d745ee37e",
    account=HARBOUR,
    namespaces=(
        Namespace(
            namespace_id="b002de351c8e1487701f89eed7ae07ad",
            unique_key="counter-Counter",
            class_name="Counter",
            binding="COUNTERS",
        ),
    ),
    versions=(
        Version(
            tag="live",
            version_id="1a6adce4-f220-4608-a24a-51dee45bd6ba",
            modules=_one("counter/worker.js"),
            rate=9,
            paths=("/alpha", "/beta", "/gamma"),
        ),
    ),
)


def _small(name: str, worker_id: str, version_id: str, rate: float, account: Account) -> Worker:
    return Worker(
        name=name,
        worker_id=worker_id,
        account=account,
        versions=(
            Version(tag="live", version_id=version_id, modules=_one(f"small/{name}.js"), rate=rate),
        ),
    )


QUIET = _small(
    "quiet", "68a6f3d00360b9ac41cf31b8b7627151", "a4cb44d8-4b6c-4326-9905-d8c8209a767e", 1, HARBOUR
)
LOOP = _small(
    "loop", "8eb50f07467d89b04060773ec945e027", "2ce4adda-7f1e-4ea0-8375-1763aa04173e", 8, HARBOUR
)
PBKDF2 = _small(
    "pbkdf2", "e27924b1dece9b93021431fcf65f2205", "be9d9c4d-f3f9-4ed1-8db3-a869c72bda9d", 8, HARBOUR
)
ARROWS = _small(
    "arrows", "33a882a01d0b3ebd1d2a4fc738d2073e", "82f2d5de-95a9-485a-a731-585dd4498058", 8, HARBOUR
)
PATIENT = _small(
    "patient",
    "e4c756bfecd5224f8d2542bc4091df74",
    "bd8e83af-41c6-4459-bddf-709e30cc227a",
    2,
    HARBOUR,
)
LEDGER = _small(
    "ledger", "e33b7f9841e8f9ae585edda1c2a0e385", "0e70bfed-c808-4958-af1c-01f985b5915e", 5, ORCHARD
)
COMMONS = Worker(
    name="commons",
    worker_id="0d2bcb799e0e3004ec9d7969ab6c457e",
    account=HARBOUR,
    also=(ORCHARD,),
    versions=(
        Version(
            tag="live",
            version_id="e991505d-6f77-49bb-8d17-f207c814ae0d",
            modules=_one("small/commons.js"),
            rate=2,
        ),
    ),
)


def _places(*places: tuple[Worker, str]) -> tuple[Place, ...]:
    return tuple(Place(worker=worker, version=worker.version(tag)) for worker, tag in places)


def _metal(metal_id: str, *processes: tuple[Place, ...]) -> Metal:
    return Metal(
        metal_id=metal_id,
        datacenter=metal_id.split("-")[0],
        processes=tuple(
            Process(runtime_id=f"wd{number}", places=places)
            for number, places in enumerate(processes, start=1)
        ),
    )


PLAN = Plan(
    accounts=(HARBOUR, ORCHARD),
    workers=(
        REPLACER,
        METRICS,
        CHECKOUT,
        CATALOG,
        COUNTER,
        QUIET,
        LOOP,
        PBKDF2,
        ARROWS,
        PATIENT,
        LEDGER,
        COMMONS,
    ),
    metals=(
        _metal(
            "ams1-m1",
            _places((REPLACER, "before")),
            _places(
                (CHECKOUT, "first"),
                (CHECKOUT, "retired"),
                (CHECKOUT, "second"),
                (CATALOG, "live"),
            ),
        ),
        _metal(
            "ams1-m2",
            _places((METRICS, "before")),
            _places((COUNTER, "live"), (QUIET, "live"), (PATIENT, "live")),
        ),
        _metal(
            "iad1-m1",
            _places((LOOP, "live"), (REPLACER, "after")),
            _places((CHECKOUT, "first"), (LEDGER, "live"), (COMMONS, "live")),
        ),
        _metal(
            "iad1-m2",
            _places((PBKDF2, "live")),
            _places((METRICS, "after"), (ARROWS, "live"), (CATALOG, "live")),
        ),
    ),
)

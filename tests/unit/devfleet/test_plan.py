"""What stands where: ids of the right shape, names that do not collide, sources that exist."""

from __future__ import annotations

from contract import ids
from services.devfleet.build import WORKERS
from services.devfleet.fleet import PLAN


def test_ids_have_their_shapes() -> None:
    assert all(ids.ACCOUNT_ID.match(account.account_id) for account in PLAN.accounts)
    for worker in PLAN.workers:
        assert ids.WORKER_ID.match(worker.worker_id)
        assert ids.WORKER_NAME.match(worker.name)
        assert all(ids.is_uuid(version.version_id) for version in worker.versions)
        assert all(ids.NAMESPACE_ID.match(one.namespace_id) for one in worker.namespaces)
    assert all(ids.METAL_ID.match(metal.metal_id) for metal in PLAN.metals)


def test_ids_and_names_are_unique() -> None:
    versions = [version.version_id for worker in PLAN.workers for version in worker.versions]
    workers = [worker.worker_id for worker in PLAN.workers]
    assert len(set(versions)) == len(versions)
    assert len(set(workers)) == len(workers)
    for metal in PLAN.metals:
        for process in metal.processes:
            services = [place.service for place in process.places]
            assert len(set(services)) == len(services)


def test_two_datacenters_of_two_metals_of_two_processes() -> None:
    assert sorted(metal.datacenter for metal in PLAN.metals) == ["ams1", "ams1", "iad1", "iad1"]
    assert all(len(metal.processes) >= 2 for metal in PLAN.metals)
    assert len(PLAN.accounts) >= 2


def test_every_source_is_there_and_every_version_stands_somewhere() -> None:
    standing = {
        place.version.version_id
        for metal in PLAN.metals
        for process in metal.processes
        for place in process.places
    }
    for worker in PLAN.workers:
        for version in worker.versions:
            assert version.version_id in standing
            assert all((WORKERS / source).is_file() for _name, source in version.modules)

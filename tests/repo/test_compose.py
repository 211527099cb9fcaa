"""The container files: valid, free of registry addresses, and naming only what is here."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repo.tree import ROOT

COMPOSE = (ROOT / "docker-compose.yml").read_text()
DOCKERFILE = (ROOT / "services" / "Dockerfile").read_text()


def has_compose() -> bool:
    docker = shutil.which("docker")
    if docker is None:
        return False
    return (
        subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode
        == 0
    )


@pytest.mark.skipif(not has_compose(), reason="docker compose is not here")
def test_compose_file_is_valid_and_every_part_is_watched() -> None:
    command = ["docker", "compose", "config", "--format", "json"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    services = json.loads(run.stdout)["services"]
    once = {
        name
        for service in services.values()
        for name, needed in service.get("depends_on", {}).items()
        if needed["condition"] == "service_completed_successfully"
    }
    for name, service in services.items():
        assert name in once or "healthcheck" in service, f"{name} has no health check"
        for port in service.get("ports", []):
            assert port["host_ip"] == "127.0.0.1", f"{name} is open to the network"


def test_container_files_need_no_registry_address() -> None:
    assert not re.search(r"^#\s*syntax=", DOCKERFILE, re.MULTILINE)
    assert "@sha256:" not in DOCKERFILE + COMPOSE
    images = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    images += re.findall(r"^\s+image: (\S+)", COMPOSE, re.MULTILINE)
    assert [image for image in images if "." in image.split("/")[0] and "/" in image] == []


def test_dockerfile_copies_only_what_is_here() -> None:
    for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE):
        sources = [word for word in line.split()[:-1] if not word.startswith("--")]
        for source in sources:
            assert (ROOT / source).exists(), source


def test_dockerfile_passes_its_linter() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    run = subprocess.run(
        [hadolint, ROOT / "services" / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout

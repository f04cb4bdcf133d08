"""``slipstream doctor``: what is required, and what most of the work goes without."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from commands import Slipstream
from slipstream._cli.machine import doctor_command
from slipstream._cli.machine.bug_report import redact


def test_it_looks_at_what_the_console_and_kafka_need(slipstream: Slipstream) -> None:
    looked_at = {finding["what"] for finding in slipstream("doctor", "--json").json["findings"]}
    assert looked_at >= {"Java", "/dev/shm", "Huge pages", "Storage", "Console's page", "Node", "Port of Kafka"}


def test_what_is_optional_does_not_fail(slipstream: Slipstream, monkeypatch: pytest.MonkeyPatch) -> None:
    fine = doctor_command.Finding("Java", "17", good=True)
    spare = doctor_command.Finding("Node", "missing", good=False, todo="Install it.", optional=True)
    monkeypatch.setattr(doctor_command, "examine", lambda *_: [fine, spare])
    done = slipstream("doctor")
    assert done.code == 0
    assert "Install it." in done.out
    monkeypatch.setattr(
        doctor_command, "examine", lambda *_: [doctor_command.Finding("Java", "8", good=False, todo="Install Java 17.")]
    )
    assert slipstream("doctor").code == 4


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert doctor_command.look_at_port("Port", port).found == f"{port}: something listens there"
    assert doctor_command.look_at_port("Port", port).found == f"{port}: free"


def test_storage_that_cannot_be_written_or_locked_is_refused_with_advice(tmp_path: Path) -> None:
    assert doctor_command.look_at_storage(tmp_path).good
    assert not list(tmp_path.iterdir())
    found = doctor_command.look_at_storage(tmp_path / "missing")
    assert (found.good, found.optional) == (False, False)
    assert "NFS 4" in found.todo


@pytest.mark.parametrize(
    ("text", "good"), [("always within_size advise [never] deny force", False), ("always [advise] never", True)]
)
def test_huge_pages_are_read_from_the_kernels_setting(tmp_path: Path, text: str, good: bool) -> None:
    (tmp_path / "shmem_enabled").write_text(text)
    found = doctor_command.look_at_huge_pages(tmp_path / "shmem_enabled")
    assert (found.good, found.optional) == (good, True)
    assert doctor_command.look_at_huge_pages(tmp_path / "missing").good


def test_a_broker_that_does_not_answer_is_named(slipstream: Slipstream) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    done = slipstream("doctor", "--kafka", f"127.0.0.1:{port}", "--json")
    assert done.code == 4
    (kafka,) = [finding for finding in done.json["findings"] if finding["what"] == "Kafka"]
    assert str(port) in kafka["found"]


def test_a_report_has_the_machine_and_the_job_and_no_secrets(
    slipstream: Slipstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLIPSTREAM_CONSOLE_TOKEN", "quite-secret")
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/somewhere")
    (tmp_path / "slipstream.toml").write_text('[kafka]\n"sasl.password" = "quite-secret"\n"sasl.username" = "ann"\n')
    job = tmp_path / "job"
    (job / "outputs").mkdir(parents=True)
    (job / "job.json").write_text('{"kind": "toll"}')
    (job / "job.log").write_text("Failed: https://ann:quite-secret@host/ does not answer\n")
    (job / "outputs" / "part.parquet").write_text("a position of van-7")
    ended = slipstream("doctor", "--report", tmp_path / "bug.md", "--job", job)
    assert (tmp_path / "bug.md").name in ended.err + ended.out
    report = (tmp_path / "bug.md").read_text()
    for said in (
        "Java",
        "pyspark==",
        '{"kind": "toll"}',
        "does not answer",
        "outputs/part.parquet",
        "/somewhere",
        "ann",
    ):
        assert said in report
    assert "quite-secret" not in report
    assert "van-7" not in report
    again = slipstream("doctor", "--report", tmp_path / "bug.md")
    assert (again.code, "exists" in again.err) == (2, True)


@pytest.mark.parametrize(
    "text",
    [
        "sasl.password=hunter2",
        '"ssl.key.password": "hunter2"',
        "{'api_key': 'hunter2', 'a': 1}",
        "kafka://ann:hunter2@host:9092/topic",
        "--token=hunter2",
        'sasl.jaas.config = "org.apache password=\\"hunter2\\";"',
    ],
)
def test_secrets_are_left_out_however_they_are_written(text: str) -> None:
    assert "hunter2" not in redact(text)

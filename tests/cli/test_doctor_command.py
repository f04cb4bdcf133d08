"""``slipstream doctor``: what is required, and what most of the work goes without."""

from __future__ import annotations

import socket

import pytest

from commands import Slipstream
from slipstream._cli.machine import doctor


def test_it_looks_at_what_the_console_and_kafka_need(slipstream: Slipstream) -> None:
    looked_at = {finding["what"] for finding in slipstream("doctor", "--json").json["findings"]}
    assert looked_at >= {"Java", "/dev/shm", "Console's page", "Node", "Port of Kafka"}


def test_what_is_optional_does_not_fail(slipstream: Slipstream, monkeypatch: pytest.MonkeyPatch) -> None:
    fine = doctor.Finding("Java", "17", good=True)
    spare = doctor.Finding("Node", "missing", good=False, todo="Install it.", optional=True)
    monkeypatch.setattr(doctor, "examine", lambda _: [fine, spare])
    done = slipstream("doctor")
    assert done.code == 0
    assert "Install it." in done.out
    monkeypatch.setattr(doctor, "examine", lambda _: [doctor.Finding("Java", "8", good=False, todo="Install Java 17.")])
    assert slipstream("doctor").code == 4


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert doctor.look_at_port("Port", port).found == f"{port}: something listens there"
    assert doctor.look_at_port("Port", port).found == f"{port}: free"

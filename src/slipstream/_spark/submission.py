"""A command as a file, for ``spark-submit``: what runs, where, with which Python.

    command: toll kafka:broker:9092/positions --follow --no-text --out /shared/tolls
    master: yarn
    deploy_mode: cluster
    environment: environment.tar.gz
    conf: {spark.executor.memory: 4g}

In client mode the driver runs where the job is submitted, in cluster mode on a machine of the cluster. Nothing of this
machine is known there: the packed environment brings Python and Slipstream, and all paths are on shared storage.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from slipstream._errors import MALFORMED, BadArgument, BadInput
from slipstream._spark.session import JAVA_OPTIONS, parse_conf
from slipstream._tools.strict_json import decode_as

CLIENT, CLUSTER = "client", "cluster"
#: where Spark unpacks the environment, in the working folder of every process
_UNPACKED = "environment"
_PYTHON = f"./{_UNPACKED}/bin/python"
_FROM_THE_FILE = ("--master", "--conf")


@dataclass(frozen=True)
class Submission:
    """A command for a cluster, as its file describes it."""

    command: str  # of slipstream, without its name
    master: str
    deploy_mode: str = CLIENT
    environment: str = ""  # a packed Python with Slipstream; without it, the machines have this Python at the same path
    conf: dict[str, str] = field(default_factory=dict)
    name: str = "slipstream"

    @classmethod
    def read(cls, file: Path) -> Submission:
        """Read a file; refuse what Spark would refuse later."""
        import yaml

        try:
            body = yaml.safe_load(file.read_text(encoding="utf-8"))
            if isinstance(body, dict) and isinstance(body.get("conf"), dict):
                body["conf"] = {str(key): str(value) for key, value in body["conf"].items()}
            found = decode_as(cls, body)
        except FileNotFoundError as error:
            raise BadArgument(f"{file}: no such file.", hint=_HINT, code="no-such-file") from error
        except (OSError, yaml.YAMLError, *MALFORMED) as error:
            raise BadInput(f"{file}: {str(error).splitlines()[0]}.", hint=_HINT, code="unreadable-file") from error
        found._check(file)
        return found

    @property
    def words(self) -> list[str]:
        """The words of the command."""
        return shlex.split(self.command)

    def _check(self, file: Path) -> None:
        parse_conf(f"{key}={value}" for key, value in self.conf.items())
        named = [word for word in self.words if word.partition("=")[0] in _FROM_THE_FILE]
        checks = (
            (not self.words or self.words[0] == "slipstream", "command: begins with toll, network run, ...", ""),
            (bool(named), f"command: {' '.join(named)} belongs into the file.", "Write master: and conf: there."),
            (
                self.deploy_mode not in (CLIENT, CLUSTER),
                f"deploy_mode: {self.deploy_mode} is unknown.",
                "Give client or cluster.",
            ),
            (
                self.deploy_mode == CLUSTER and self.master.startswith(("spark://", "local")),
                f"deploy_mode: Spark runs no Python driver on {self.master}.",
                "Use client there; yarn and k8s:// have cluster.",
            ),
            (
                self.deploy_mode == CLUSTER and not self.environment,
                "environment: a driver on the cluster has no Python with Slipstream.",
                "Pack one: docs/how-to/cluster.md.",
            ),
            (
                self.deploy_mode == CLUSTER and any(not Path(place).is_absolute() for place in self._outputs()),
                "command: --out must be an absolute path on storage that all machines share.",
                "The driver has another working folder there.",
            ),
        )
        for is_wrong, problem, hint in checks:
            if is_wrong:
                raise BadArgument(f"{file}: {problem}", hint=hint or _HINT, code="malformed-value")

    def _outputs(self) -> Iterator[str]:
        words = self.words
        for before, word in zip(["", *words], words, strict=False):
            if before in ("--out", "-o"):
                yield word
            elif word.startswith("--out="):
                yield word.partition("=")[2]

    def to_command(self) -> list[str]:
        """Return the words of ``spark-submit``."""
        import pyspark

        program = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        conf = dict(self._default_conf()) | self.conf
        options = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        archives = ["--archives", f"{self.environment}#{_UNPACKED}"] if self.environment else []
        main = str(files("slipstream").joinpath("_spark", "submitted.py"))
        return [
            str(program), "--master", self.master, "--deploy-mode", self.deploy_mode, "--name", self.name,
            *options, *archives, main, *self.words, "--master", self.master,
        ]  # fmt: skip

    def _default_conf(self) -> Iterator[tuple[str, str]]:
        python = _PYTHON if self.environment else sys.executable
        yield "spark.pyspark.python", python
        # a driver on this machine runs this Python: nobody unpacks an environment for it
        yield "spark.pyspark.driver.python", python if self.deploy_mode == CLUSTER else sys.executable
        if self.deploy_mode == CLIENT:
            quiet = files("slipstream").joinpath("log4j2.properties")
            yield JAVA_OPTIONS, f"-Dlog4j2.configurationFile=file:{quiet}"
        elif self.master == "yarn":
            yield "spark.yarn.appMasterEnv.PYSPARK_PYTHON", python


_HINT = "It has command, master and, if needed, deploy_mode, environment, conf and name: docs/how-to/cluster.md."

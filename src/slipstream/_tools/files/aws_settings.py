"""Where S3 is and who may use it: from the environment or a profile, as for the tools of AWS.

    AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION
    AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL     a store that is not Amazon's
    AWS_PROFILE                                 a section of ~/.aws/credentials and ~/.aws/config

What is not there is found by the clients themselves, such as the role of a virtual machine.
"""

from __future__ import annotations

import configparser
import os
from pathlib import Path

#: the settings of a profile, and the variables that go before them
_NAMES = {
    "aws_access_key_id": "AWS_ACCESS_KEY_ID",
    "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "aws_session_token": "AWS_SESSION_TOKEN",
    "region": "AWS_REGION",
    "endpoint_url": "AWS_ENDPOINT_URL",
}
_SECRETS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


def apply_profile() -> None:
    """Put the profile and what follows from it into the environment of this process.

    The clients of S3 in a job are three: ours, that of the tables, and Hadoop's in Spark's JVM. All read the
    environment, which Spark's workers inherit; only some know profiles.
    """
    profile = _read_profile(os.environ.get("AWS_PROFILE", "default"))
    has_key = any(os.environ.get(name) for name in _SECRETS)
    for name, variable in _NAMES.items():
        if name in profile and not (has_key and variable in _SECRETS):  # never one's key with another's secret
            os.environ.setdefault(variable, profile[name])
    if region := os.environ.get("AWS_DEFAULT_REGION"):
        os.environ.setdefault("AWS_REGION", region)
    if endpoint := find_endpoint():
        os.environ["AWS_ENDPOINT_URL"] = endpoint
        os.environ.setdefault("AWS_REGION", "us-east-1")
        if endpoint.startswith("http://"):
            os.environ.setdefault("AWS_ALLOW_HTTP", "true")


def find_endpoint() -> str:
    """The address of a store that is not Amazon's; empty for Amazon's."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""


def read() -> dict[str, str]:
    """Return the settings of a client, without those that it finds itself."""
    apply_profile()
    named = {"AWS_ENDPOINT_URL": "endpoint", "AWS_REGION": "region", "AWS_ALLOW_HTTP": "allow_http"}
    named |= dict(zip(_SECRETS, ("access_key_id", "secret_access_key", "session_token"), strict=True))
    return {name: os.environ[variable] for variable, name in named.items() if os.environ.get(variable)}


def spark_settings() -> dict[str, str]:
    """Return what Hadoop's client needs to know besides the environment; no secrets."""
    apply_profile()
    conf = {"spark.hadoop.fs.s3a.path.style.access": "true"} if find_endpoint() else {}
    if region := os.environ.get("AWS_REGION"):
        conf["spark.hadoop.fs.s3a.endpoint.region"] = region
    if endpoint := find_endpoint():
        conf["spark.hadoop.fs.s3a.endpoint"] = endpoint
        conf["spark.hadoop.fs.s3a.connection.ssl.enabled"] = str(not endpoint.startswith("http://")).lower()
    return conf


def _read_profile(name: str) -> dict[str, str]:
    """The settings of a profile; empty if there is none."""
    home = Path.home() / ".aws"
    files = (
        os.environ.get("AWS_CONFIG_FILE", home / "config"),
        os.environ.get("AWS_SHARED_CREDENTIALS_FILE", home / "credentials"),
    )
    parser = configparser.RawConfigParser()
    try:
        parser.read([str(file) for file in files], encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return {}
    found: dict[str, str] = {}
    for section in (f"profile {name}", name):
        if parser.has_section(section):
            found |= dict(parser.items(section))
    return found

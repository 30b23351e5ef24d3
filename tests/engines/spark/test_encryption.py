"""A cluster that would write or send subkeys in plain text is refused unless told otherwise, and so is Spark Connect."""

from __future__ import annotations

import pytest
from driver_scene import EPSILON, MOST_SECONDS, Scene
from pyspark.sql import DataFrame

import labeldp.spark
from labeldp import Message, PrivacyRefused
from labeldp.engines.spark.session import check_encryption
from spark_cluster import ENCRYPTION, spark_cluster

ROWS = 4000
REFUSED = "Set spark.io.encryption.enabled=true and spark.network.crypto.enabled=true when the session starts"


class Session:
    """As much of a session as is asked: its master and its settings."""

    def __init__(self, master, **settings):
        self.sparkContext, self.master, self._settings = self, master, settings

    def getConf(self):  # noqa: N802 - as Spark calls it
        return {name.replace("_", "."): value for name, value in self._settings.items()}


DISKS, NETWORK, TLS = (
    {name: "true"} for name in ("spark_io_encryption_enabled", "spark_network_crypto_enabled", "spark_ssl_rpc_enabled")
)


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://host", "local-cluster[2,1,1024]"])
@pytest.mark.parametrize("settings", [{}, DISKS, NETWORK, {"spark_io_encryption_enabled": "false"} | NETWORK])
def test_a_cluster_without_encryption_is_refused(master, settings):
    with pytest.raises(PrivacyRefused, match="allow_unencrypted=True"):
        check_encryption(Session(master, **settings), allow_unencrypted=False)
    check_encryption(Session(master, **settings), allow_unencrypted=True)


@pytest.mark.parametrize("disks", [DISKS, {"spark_io_encryption_enabled": " True"}])
@pytest.mark.parametrize("network", [NETWORK, TLS])
def test_a_cluster_with_encryption_is_taken(disks, network):
    check_encryption(Session("yarn", **disks, **network), allow_unencrypted=False)


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2,4]"])
def test_a_session_on_one_machine_needs_no_encryption(master):
    check_encryption(Session(master), allow_unencrypted=False)


def test_a_frame_of_spark_connect_is_refused(tmp_path):
    """Its own modules need packages that the extra does not install, so a class stands in for it: a frame, but no classic one."""
    remote = object.__new__(type("DataFrame", (DataFrame,), {"__module__": "pyspark.sql.connect.dataframe"}))
    with pytest.raises(PrivacyRefused, match="belongs to a Spark Connect session"):
        labeldp.spark.privatize(remote, label="y", id="id", epsilon=1, domain=(0, 1), out=tmp_path / "message")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.soak
@pytest.mark.usefixtures("java")
def test_a_plain_cluster_is_refused_before_anything_is_charged_unless_told_otherwise(tmp_path):
    scene = Scene.make(tmp_path / "scene", rows=ROWS)
    with spark_cluster(tmp_path / "cluster") as cluster:
        options = ["--master", cluster.master, "--conf", "spark.executor.memory=512m"]
        with scene.driver(*options, environment=cluster.environment()) as process:
            assert process.wait(MOST_SECONDS) == 1
        assert REFUSED in (scene.folder / "driver" / "log").read_text()
        assert (scene.spent, scene.message.exists(), (scene.folder / "key").exists()) == (0, False, False)
        with scene.driver(*options, "--allow-unencrypted", environment=cluster.environment()) as process:
            assert process.wait(MOST_SECONDS) == 0
    assert (scene.spent, Message.open(scene.message).records) == (EPSILON, ROWS)


@pytest.mark.soak
@pytest.mark.usefixtures("java")
def test_an_encrypted_cluster_is_taken(tmp_path):
    scene = Scene.make(tmp_path / "scene", rows=ROWS)
    with spark_cluster(tmp_path / "cluster", encrypted=True) as cluster:
        settings = (cluster.conf / "spark-defaults.conf").read_text()
        options = ["--master", cluster.master, "--conf", "spark.executor.memory=512m"]
        with scene.driver(*options, environment=cluster.environment()) as process:
            assert process.wait(MOST_SECONDS) == 0
    assert all(f"{name} true" in settings for name in ENCRYPTION)
    assert (scene.spent, Message.open(scene.message).records) == (EPSILON, ROWS)

"""A real cluster on this machine: etcd, API server, controllers, scheduler, and a node that runs pods.

Everything listens on the loopback address, keeps its files in one temporary folder and ends with the process that
started it. The node (kubelet, containerd, runc) needs root; it has its own process and mount namespaces, so that
nothing of it is left behind.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from evertick.kinds.kubernetes.cluster import Access, ApiError, ApiUnavailable, Cluster, connect
from tests import supervisor
from tests.kubernetes.binaries import Unobtainable, folder_of_binaries
from tests.kubernetes.images import PAUSE, write_images

READY_SECONDS = 240
ADMIN = "evertick-test-admin"
BRIDGE = "evk0"
CONTROLLERS = (
    "job-controller,garbage-collector-controller,serviceaccount-controller,namespace-controller,"
    "ttl-after-finished-controller,pod-garbage-collector-controller,node-lifecycle-controller,"
    "root-ca-certificate-publisher-controller,resourcequota-controller,disruption-controller"
)


class Program:
    """One process of the cluster; it ends with us, whatever ends us."""

    def __init__(self, name: str, folder: Path, stop_signal: signal.Signals = signal.SIGTERM) -> None:
        self.name = name
        self.folder = folder / name
        self.folder.mkdir()
        self.log = folder / f"{name}.log"
        self._signal = stop_signal
        self._supervisor: subprocess.Popen[str] | None = None
        self.pid = 0

    def start(self, command: list[str], env: dict[str, str] | None = None) -> None:
        order = {"command": command, "uid": None, "gid": None, "signal": self._signal, "folder": str(self.folder)}
        with open(self.log, "a") as log:
            self._supervisor = subprocess.Popen(
                [sys.executable, supervisor.__file__, json.dumps(order)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **(env or {})},
                # What ends all of us at once must leave it the time to end its server.
                start_new_session=True,
            )
        assert self._supervisor.stdout is not None
        self.pid = int(self._supervisor.stdout.readline())

    def kill(self) -> None:
        """As hard as can be; its files stay."""
        assert self._supervisor is not None
        os.kill(self.pid, signal.SIGKILL)
        self._supervisor.communicate()

    def close(self) -> None:
        if self._supervisor is not None:
            self._supervisor.communicate()  # closes its standard input, which ends it

    @property
    def has_ended(self) -> bool:
        return self._supervisor is not None and self._supervisor.poll() is not None

    def last_words(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]


class RealCluster:
    def __init__(self) -> None:
        self.binaries = folder_of_binaries()
        self.folder = Path(tempfile.mkdtemp(prefix="ek-"))
        self.kubeconfig = self.folder / "kubeconfig"
        self._ports = dict(zip(("etcd", "peer", "api", "kcm", "scheduler", "kubelet"), _free_ports(6), strict=True))
        names = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
        self._programs = {name: Program(name, self.folder) for name in names}
        self._programs["node"] = Program("node", self.folder, signal.SIGKILL)

    # Life

    def __enter__(self) -> RealCluster:
        try:
            self._write_credentials()
            self._start_etcd()
            self._start_api()
            self._wait_for("the API server", self._is_answering, "kube-apiserver")
            self._start_controllers()
            self._wait_for("the default service account", self._has_account, "kube-controller-manager")
            self._start_node()
            self._wait_for("the node", self._is_node_ready, "node")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for program in reversed(self._programs.values()):
            program.close()
        subprocess.run(["ip", "link", "delete", BRIDGE], stderr=subprocess.DEVNULL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def restart_api(self) -> None:
        """Kill the API server and start it again; what it remembered of the past is gone with it."""
        self.kill_api()
        self.start_api()

    def kill_api(self) -> None:
        self._programs["kube-apiserver"].kill()

    def start_api(self) -> None:
        self._start_api()
        self._wait_for("the API server", self._is_answering, "kube-apiserver")

    def connect(self, token: str | None = None, namespace: str = "default") -> Cluster:
        path = self.kubeconfig if token is None else self._kubeconfig_for(token)
        return connect(Access(str(path), namespace=namespace), {})

    def kubectl(self, *words: str, text: str | None = None) -> str:
        done = subprocess.run(
            ["kubectl", f"--kubeconfig={self.kubeconfig}", *words], input=text, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ask(self, method: str, path: str, body: Any = None, content: str = "") -> Any:
        """Anything that the API can be asked, as an administrator."""
        cluster = self.connect()
        try:
            return cluster._ask(method, path, None, body, content)
        finally:
            cluster.close()

    # Parts

    def _start_etcd(self) -> None:
        address, peer = (f"http://127.0.0.1:{self._ports[name]}" for name in ("etcd", "peer"))
        program = self._programs["etcd"]
        command = [
            *(str(self.binaries / "etcd"), f"--data-dir={program.folder}/data", "--log-level=error"),
            *(f"--listen-client-urls={address}", f"--advertise-client-urls={address}"),
            *(
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
            ),
            "--unsafe-no-fsync",
        ]
        program.start(command)

    def _start_api(self) -> None:
        program = self._programs["kube-apiserver"]
        program.folder.mkdir(exist_ok=True)
        key, public = self.folder / "sa.key", self.folder / "sa.pub"
        command = [
            *(str(self.binaries / "kube-apiserver"), f"--etcd-servers=http://127.0.0.1:{self._ports['etcd']}"),
            *("--bind-address=127.0.0.1", f"--secure-port={self._ports['api']}"),
            *(f"--tls-cert-file={self.folder}/api.crt", f"--tls-private-key-file={self.folder}/api.key"),
            *(f"--token-auth-file={self.folder}/tokens.csv", "--authorization-mode=RBAC"),
            *("--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={public}"),
            *(f"--service-account-signing-key-file={key}", "--service-cluster-ip-range=10.96.0.0/24"),
            *("--kubelet-preferred-address-types=Hostname,InternalIP", "--endpoint-reconciler-type=none"),
            *("--min-request-timeout=5", "--shutdown-delay-duration=0s", "--v=0"),
        ]
        program.start(command)

    def _start_controllers(self) -> None:
        shared = [f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", "--bind-address=127.0.0.1"]
        self._programs["kube-controller-manager"].start(
            [
                *(str(self.binaries / "kube-controller-manager"), *shared, f"--secure-port={self._ports['kcm']}"),
                *(f"--controllers={CONTROLLERS}", "--use-service-account-credentials=false"),
                *(f"--service-account-private-key-file={self.folder}/sa.key", f"--cert-dir={self.folder}/kcm"),
            ]
        )
        self._programs["kube-scheduler"].start(
            [
                *(str(self.binaries / "kube-scheduler"), *shared, f"--secure-port={self._ports['scheduler']}"),
                f"--cert-dir={self.folder}/scheduler",
            ]
        )

    def _start_node(self) -> None:
        if os.geteuid():
            raise Unobtainable("a node of a cluster runs containers, which needs root. Run this command as root.")
        node = self._programs["node"].folder
        write_images(node / "images.tar")
        (node / "cni").mkdir()
        files = {
            "containerd.toml": _containerd(node, self.binaries),
            "cni/10-bridge.conflist": json.dumps(_network()),
            "kubelet.json": json.dumps(self._kubelet(node)),
            "run.sh": _node_script(node, self.kubeconfig, self.folder),
            "runc": _runc(self.binaries),
        }
        for name, text in files.items():
            (node / name).write_text(text)
        (node / "runc").chmod(0o755)
        path = f"{self.binaries}:{os.environ['PATH']}"
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", f"{node}/run.sh"]
        self._programs["node"].start(command, {"PATH": path})

    def _kubelet(self, node: Path) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": "127.0.0.1",
            "port": self._ports["kubelet"],
            "healthzPort": 0,
            "readOnlyPort": 0,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": f"unix://{node}/c.sock",
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            "failSwapOn": False,
            "failCgroupV1": False,
            "oomScoreAdj": 0,
            "localStorageCapacityIsolation": False,
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"},
            "podLogsDir": f"{node}/pod-logs",
            "resolvConf": "",
            "volumePluginDir": f"{node}/plugins",
        }

    def _write_credentials(self) -> None:
        (self.folder / "tokens.csv").write_text(f'{ADMIN},admin,admin,"system:masters"\n')
        self.kubeconfig.write_text(json.dumps(self._access(ADMIN)))
        pair = ["-keyout", f"{self.folder}/api.key", "-out", f"{self.folder}/api.crt"]
        subject = ["-subj", "/CN=evertick-test", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
        for command in (
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject, *pair],
            ["openssl", "genrsa", "-out", f"{self.folder}/sa.key", "2048"],
            ["openssl", "rsa", "-in", f"{self.folder}/sa.key", "-pubout", "-out", f"{self.folder}/sa.pub"],
        ):
            subprocess.run(command, check=True, capture_output=True)

    def _kubeconfig_for(self, token: str) -> Path:
        path = self.folder / f"kubeconfig-{abs(hash(token))}"
        path.write_text(json.dumps(self._access(token)))
        return path

    def _access(self, token: str) -> dict[str, Any]:
        server = {
            "server": f"https://127.0.0.1:{self._ports['api']}",
            "certificate-authority": f"{self.folder}/api.crt",
        }
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": server}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }

    # Waiting

    def _wait_for(self, what: str, is_there: Callable[[], bool], program: str) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while True:
            with suppress(ApiUnavailable, ApiError):
                if is_there():
                    return
            if self._programs[program].has_ended or time.monotonic() > deadline:
                raise Unobtainable(f"{what} did not come up:\n{self._programs[program].last_words()}")
            time.sleep(0.1)

    def _is_answering(self) -> bool:
        # Its own roles come last.
        return "metadata" in self.ask("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin")

    def _has_account(self) -> bool:
        return "metadata" in self.ask("GET", "/api/v1/namespaces/default/serviceaccounts/default")

    def _is_node_ready(self) -> bool:
        nodes = self.ask("GET", "/api/v1/nodes")["items"]
        conditions = [one for node in nodes for one in node["status"].get("conditions", ())]
        is_tainted = any(node["spec"].get("taints") for node in nodes)
        return not is_tainted and any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _containerd(node: Path, binaries: Path) -> str:
    return f"""
version = 3
root = "{node}/root"
state = "{node}/state"
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = "{node}/c.sock"
[ttrpc]
  address = "{node}/t.sock"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{PAUSE}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{binaries}"]
    conf_dir = "{node}/cni"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "{node}/runc"
      SystemdCgroup = false
"""


def _runc(binaries: Path) -> str:
    """Without the filter of system calls, which runc could only have with a C library that not every machine has."""
    return f"""#!{sys.executable} -SE
import json, os, sys
words = sys.argv[1:]
if "create" in words:
    path = words[words.index("--bundle") + 1] + "/config.json"
    with open(path) as file:
        config = json.load(file)
    config["linux"].pop("seccomp", None)
    with open(path, "w") as file:
        json.dump(config, file)
os.execv("{binaries}/runc", ["runc", *words])
"""


def _network() -> dict[str, Any]:
    addresses = {"type": "host-local", "ranges": [[{"subnet": "10.199.77.0/24"}]]}
    bridge = {"type": "bridge", "bridge": BRIDGE, "isGateway": False, "ipMasq": False, "ipam": addresses}
    return {"cniVersion": "1.0.0", "name": "evertick-test", "plugins": [bridge]}


def _node_script(node: Path, kubeconfig: Path, folder: Path) -> str:
    """The first process of the node's own world: when it ends, all of it ends."""
    return f"""
set -e
mount --make-rprivate /
mkdir -p {node}/netns /run/netns /var/lib/cni /var/lib/kubelet
mount --bind {node}/netns /run/netns
mount --make-rshared /
containerd --config {node}/containerd.toml --log-level warn &
until ctr --address {node}/c.sock version >/dev/null 2>&1; do sleep 0.1; done
ctr --address {node}/c.sock --namespace k8s.io images import --local {node}/images.tar
exec kubelet --config={node}/kubelet.json --kubeconfig={kubeconfig} --root-dir={node}/kubelet \\
  --cert-dir={folder}/kubelet-certs --hostname-override=localhost --v=1
"""


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with RealCluster() as cluster:
        print(f"export KUBECONFIG={cluster.kubeconfig}", flush=True)  # noqa: T201
        signal.pause()

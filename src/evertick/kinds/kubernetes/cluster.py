"""A small client for the Kubernetes API: credentials, and the few calls that Evertick needs, on plain data."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from evertick.errors import SettingsError
from evertick.model.plain_json import Document

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

ANSWER_SECONDS: Final = 30.0
CONNECT_SECONDS: Final = 5.0
PAGE: Final = 500
CONNECTIONS: Final = 32
IN_CLUSTER: Final = "KUBERNETES_SERVICE_HOST"
OWN: Final = "in-cluster"
"""The context name for the cluster that the scheduler runs in."""
_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_MERGE: Final = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Access:
    """Which cluster, and where in it."""

    kubeconfig: str | None = None
    """None: `KUBECONFIG`, else `~/.kube/config`; inside a cluster, the pod's own account."""
    context: str | None = None
    """`in-cluster` is the one that the scheduler runs in."""
    namespace: str | None = None
    """None: the context's, inside a cluster the pod's own, else `default`."""


class ApiError(Exception):
    """The cluster answered with an error."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{message or reason or 'no reason given'} (the cluster answered {status})")
        self.status = status
        self.reason = reason
        self.message = message


class ApiUnavailable(Exception):
    """The cluster did not answer; unless `is_unsent`, the request may have been executed. Retry it."""

    def __init__(self, text: str, *, is_unsent: bool = False) -> None:
        super().__init__(text)
        self.is_unsent = is_unsent


class Stream:
    """A streamed response; `end` from another thread stops its reader."""

    def __init__(self, response: BaseHTTPResponse) -> None:
        self._response = response

    def chunks(self) -> Iterator[bytes]:
        """Until the cluster ends the stream; `ApiUnavailable` if the connection is lost."""
        import urllib3

        try:
            yield from self._response.stream(64 * 1024, decode_content=True)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise ApiUnavailable(str(error)) from error
        finally:
            self._response.close()

    def lines(self) -> Iterator[bytes]:
        rest = b""
        for chunk in self.chunks():
            *whole, rest = (rest + chunk).split(b"\n")
            yield from whole
        if rest:
            yield rest

    def end(self) -> None:
        # The reader may be in any state between open and closed.
        with contextlib.suppress(Exception):
            self._response.shutdown()


class Cluster:
    """Stateless beside its connections: any thread may use it."""

    def __init__(self, configuration: Any, namespace: str) -> None:
        from kubernetes import client

        configuration.connection_pool_maxsize = CONNECTIONS
        self._configuration = configuration
        self._host: str = configuration.host.rstrip("/")
        self._pool = client.ApiClient(configuration).rest_client.pool_manager
        self.namespace = namespace

    # Jobs and pods

    def create_job(self, manifest: Document) -> Document:
        return self._ask("POST", jobs_path(manifest["metadata"]["namespace"]), body=manifest)

    def read_job(self, namespace: str, name: str) -> Document | None:
        try:
            return self._ask("GET", f"{jobs_path(namespace)}/{name}")
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def patch_job(self, namespace: str, name: str, change: Document) -> Document | None:
        try:
            return self._ask("PATCH", f"{jobs_path(namespace)}/{name}", body=change, content=_MERGE)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def delete_job(self, namespace: str, name: str) -> None:
        """In the foreground: the Job exists until its pods are gone."""
        self._delete(f"{jobs_path(namespace)}/{name}", {"propagationPolicy": "Foreground"})

    def delete_pod(self, namespace: str, name: str, grace_seconds: int) -> None:
        """Never with a grace of 0: that removes the object while its processes live on."""
        self._delete(f"{pods_path(namespace)}/{name}", {"gracePeriodSeconds": max(1, grace_seconds)})

    def list_all(self, path: str, selector: str) -> tuple[list[Document], str]:
        """All objects, and the version from which to watch."""
        items: list[Document] = []
        params = {"labelSelector": selector, "limit": str(PAGE)}
        while True:
            page = self._ask("GET", path, params)
            items += page.get("items") or ()
            follow = page["metadata"].get("continue")
            if not follow:
                return items, page["metadata"]["resourceVersion"]
            params["continue"] = follow

    def watch(self, path: str, selector: str, version: str, seconds: int) -> Stream:
        params = {
            "watch": "1",
            "labelSelector": selector,
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        return self._open(path, params, read_seconds=seconds + ANSWER_SECONDS)

    def follow_log(self, namespace: str, pod: str, container: str, since: str | None) -> Stream:
        """Its lines from the beginning or an instant on, each with a timestamp, until it ends."""
        params = {"container": container, "follow": "true", "timestamps": "true"}
        if since is not None:
            params["sinceTime"] = since
        # No timeout: a program may be silent for hours, and TCP keep-alive notices a dead connection.
        return self._open(f"{pods_path(namespace)}/{pod}/log", params, read_seconds=None)

    def warnings_about(self, namespace: str, name: str) -> Sequence[str]:
        """The warnings of the cluster about an object, oldest first."""
        fields = urlencode({"fieldSelector": f"involvedObject.name={name},type=Warning"})
        found = self._ask("GET", f"/api/v1/namespaces/{namespace}/events?{fields}").get("items") or ()
        return [event.get("message", "") for event in found]

    def close(self) -> None:
        self._pool.clear()

    # Requests

    def _delete(self, path: str, options: Document) -> None:
        try:
            self._ask("DELETE", path, body=options)
        except ApiError as error:
            if error.status not in {404, 409}:
                raise

    def _ask(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        body: Document | None = None,
        content: str = "",
    ) -> Document:
        response = self._send(method, path, params, body, content, ANSWER_SECONDS)
        try:
            data = response.read(decode_content=True)
        except Exception as error:
            raise ApiUnavailable(f"{method} {path}: {error}") from error
        finally:
            response.release_conn()
        if response.status >= 300:
            raise _refusal(response.status, data)
        try:
            answer: Document = json.loads(data)
        except ValueError:
            raise ApiUnavailable(f"{method} {path}: the answer is not JSON. Is this a Kubernetes API server?") from None
        return answer

    def _open(self, path: str, params: Mapping[str, str], read_seconds: float | None) -> Stream:
        response = self._send("GET", path, params, None, "", read_seconds)
        if response.status >= 300:
            try:
                data = response.read(decode_content=True)
            except Exception as error:
                raise ApiUnavailable(f"GET {path}: {error}") from error
            finally:
                response.close()
            raise _refusal(response.status, data)
        return Stream(response)

    def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: Document | None,
        content: str,
        read_seconds: float | None,
    ) -> BaseHTTPResponse:
        import urllib3

        headers = {"Accept": "application/json", "User-Agent": "evertick"}
        # On every request: tokens are short-lived, and the library renews them here.
        for auth in self._configuration.auth_settings().values():
            headers[auth["key"]] = auth["value"]
        if body is not None:
            headers["Content-Type"] = content or "application/json"
        try:
            return self._pool.request(
                method,
                f"{self._host}{path}" + (f"?{urlencode(params)}" if params else ""),
                headers=headers,
                body=json.dumps(body).encode() if body is not None else None,
                preload_content=False,
                retries=False,
                redirect=False,
                timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=read_seconds),
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            unsent = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError)
            raise ApiUnavailable(f"{method} {path}: {error}", is_unsent=isinstance(error, unsent)) from error


def jobs_path(namespace: str | None = None) -> str:
    return f"/apis/batch/v1/namespaces/{namespace}/jobs" if namespace else "/apis/batch/v1/jobs"


def pods_path(namespace: str | None = None) -> str:
    return f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"


def connect(access: Access, environ: Mapping[str, str] = os.environ) -> Cluster:
    """By the kubeconfig if one is named or exists; inside a cluster, by the pod's own account."""
    try:
        from kubernetes import client, config
    except ImportError:
        raise SettingsError(
            "jobs with 'kubernetes' need the Python package of that name. Run: pip install 'evertick[kubernetes]'"
        ) from None
    configuration = client.Configuration()
    is_named = bool(access.kubeconfig or access.context or environ.get("KUBECONFIG"))
    try:
        if access.context == OWN or (not is_named and IN_CLUSTER in environ):
            config.load_incluster_config(configuration)
            own = _NAMESPACE_FILE.read_text().strip() if _NAMESPACE_FILE.exists() else ""
            return Cluster(configuration, access.namespace or own or "default")
        file = access.kubeconfig or environ.get("KUBECONFIG") or None
        config.load_kube_config(file, access.context, configuration, persist_config=False)
        contexts, active = config.list_kube_config_contexts(file)
        chosen = next((one for one in contexts if one["name"] == access.context), active)
        return Cluster(configuration, access.namespace or chosen["context"].get("namespace") or "default")
    except config.ConfigException as error:
        hint = "Set KUBECONFIG, or the settings of 'kubernetes'; inside a cluster nothing needs to be set."
        raise SettingsError(f"the cluster cannot be reached: {error}. {hint}") from None


def _refusal(status: int, data: bytes) -> ApiError:
    try:
        answer = json.loads(data)
        return ApiError(status, str(answer.get("reason", "")), str(answer.get("message", "")))
    except (ValueError, AttributeError):
        return ApiError(status, "", data[:200].decode("utf-8", "replace"))

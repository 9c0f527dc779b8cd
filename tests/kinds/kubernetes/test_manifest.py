"""Does the manifest of a Job describe the attempt completely, and nothing else?"""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.kinds.kubernetes.manifest import CONTAINER, job_manifest, merge, pod_spec
from evertick.kinds.kubernetes.names import LABEL_MAX, annotations_of, job_name, labels_of
from evertick.model.instant import MILLISECOND, SECOND
from evertick.model.run import RunKey
from evertick.model.work import Pod, SecretKey

NINE = 1_772_442_000_000_000
KEY = RunKey("nightly-report", NINE)
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")

texts = st.text(max_size=80)
keys = st.builds(RunKey, texts, st.integers(0, 2**53), texts)


BUSYBOX = Pod("busybox")


def manifest(pod: Pod = BUSYBOX, **known):
    known = {"env": {}, **known}
    labels = labels_of("evertick", KEY, "attempt")
    return job_manifest(pod, name="n", namespace="batch", labels=labels, annotations=annotations_of(KEY, 1, 7), **known)


def container(pod: Pod, **known):
    spec = pod_spec(pod, known.pop("env", {}), **known)
    return next(one for one in spec["containers"] if one["name"] == CONTAINER)


class TestNames:
    @given(texts, keys, st.integers(1, 10_000), texts)
    def test_any_run_has_a_name_that_the_cluster_takes(self, instance, key, attempt, step):
        name = job_name(instance, key, attempt, step)
        assert len(name) <= LABEL_MAX
        assert DNS_LABEL.fullmatch(name)

    @given(keys, keys, st.integers(1, 99), st.integers(1, 99))
    def test_two_attempts_share_a_name_only_when_they_are_one(self, one, other, first, second):
        same = (one, first) == (other, second)
        assert (job_name("evertick", one, first) == job_name("evertick", other, second)) is same

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            pytest.param(("a", KEY, 1), ("b", KEY, 1), id="two schedulers"),
            pytest.param(("a", KEY, 1), ("a", KEY, 2), id="two attempts"),
            pytest.param(("a", KEY, 1), ("a", KEY._replace(origin="x"), 1), id="an occurrence and a request"),
            pytest.param(("a", KEY, 1, "x"), ("a", KEY, 1, "y"), id="two steps"),
            pytest.param(("a", KEY, 1, "x", "1"), ("a", KEY, 1, "x", "2"), id="two tries of a step"),
            pytest.param(("a", RunKey("n", 1, "2"), 3), ("a", RunKey("n", 12, ""), 3), id="parts that run together"),
        ],
    )
    def test_these_have_different_names(self, one, other):
        assert job_name(*one) != job_name(*other)

    def test_people_recognise_the_job_in_the_name(self):
        assert job_name("evertick", KEY, 1).startswith("nightly-report-")
        assert job_name("evertick", RunKey("Ä_*_ß", NINE), 1).startswith("job-")

    @given(keys, texts)
    def test_labels_are_values_that_the_cluster_takes(self, key, step):
        for value in labels_of("evertick", key, "attempt", step).values():
            assert len(value) <= LABEL_MAX
            assert LABEL_VALUE.fullmatch(value)


class TestManifest:
    def test_the_cluster_never_tries_again_by_itself(self):
        spec = manifest()["spec"]
        assert (spec["backoffLimit"], spec["completions"], spec["parallelism"]) == (0, 1, 1)
        assert spec["template"]["spec"]["restartPolicy"] == "Never"

    def test_no_overlay_makes_it_try_again(self):
        pod = Pod("busybox", pod_spec={"restartPolicy": "OnFailure"})
        assert pod_spec(pod, {})["restartPolicy"] == "Never"

    def test_the_job_and_its_pod_are_labelled_with_their_attempt(self):
        made = manifest()
        for where in (made["metadata"], made["spec"]["template"]["metadata"]):
            assert where["annotations"]["evertick/run-id"] == KEY.run_id
            assert where["annotations"]["evertick/attempt"] == "1"
            assert where["labels"]["evertick/instance"] == "evertick"

    @pytest.mark.parametrize(
        ("timeout_us", "seconds"),
        [
            pytest.param(None, None, id="no timeout"),
            pytest.param(90 * SECOND, 90, id="whole seconds"),
            pytest.param(1_500 * MILLISECOND, 2, id="a fraction is rounded up"),
            pytest.param(MILLISECOND, 1, id="never 0"),
        ],
    )
    def test_a_timeout_is_the_deadline_of_the_job(self, timeout_us, seconds):
        assert manifest(timeout_us=timeout_us)["spec"].get("activeDeadlineSeconds") == seconds

    @pytest.mark.parametrize(
        ("pod", "command"),
        [
            pytest.param(Pod("a"), None, id="none: what the image says"),
            pytest.param(Pod("a", ("python", "etl.py")), ["python", "etl.py"], id="words"),
            pytest.param(Pod("a", ("a | b",), is_shell=True), ["/bin/sh", "-c", "a | b"], id="a line for the shell"),
        ],
    )
    def test_the_command(self, pod, command):
        assert container(pod).get("command") == command

    @given(st.dictionaries(st.sampled_from(["A", "date"]), texts), texts)
    def test_a_parameter_never_becomes_part_of_the_command(self, env, line):
        made = container(Pod("a", (line,), is_shell=True), env=env)
        assert made["command"] == ["/bin/sh", "-c", line.replace("$", "$$")]
        assert {one["name"]: expanded(one["value"], env) for one in made["env"]} == env
        assert expanded(made["command"][2], env) == line

    def test_the_pods_own_variables_win_and_secrets_stay_in_the_cluster(self):
        pod = Pod("a", env=(("MODE", "full"),), secrets=(("PASSWORD", SecretKey("db", "password")),))
        assert container(pod, env={"MODE": "x", "PASSWORD": "y", "DAY": "1"})["env"] == [
            {"name": "MODE", "value": "full"},
            {"name": "DAY", "value": "1"},
            {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
        ]

    def test_without_a_service_account_the_pod_gets_no_credentials(self):
        assert pod_spec(Pod("a"), {})["automountServiceAccountToken"] is False
        named = pod_spec(Pod("a", service_account="etl"), {})
        assert (named["automountServiceAccountToken"], named["serviceAccountName"]) == (True, "etl")

    def test_resources_and_folder(self):
        made = container(Pod("a", requests=(("cpu", "500m"),), limits=(("memory", "1Gi"),)), working_dir="/srv")
        assert made["resources"] == {"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}}
        assert made["workingDir"] == "/srv"

    def test_a_manifest_is_plain_data(self):
        pod = Pod("a", ("b",), pod_spec={"tolerations": [{"operator": "Exists"}]})
        assert json.loads(json.dumps(manifest(pod))) == manifest(pod)


class TestOverlay:
    @pytest.mark.parametrize(
        ("above", "result"),
        [
            pytest.param({"c": 3}, {"a": {"b": 1}, "l": [1], "c": 3}, id="a new value is added"),
            pytest.param({"a": {"d": 2}}, {"a": {"b": 1, "d": 2}, "l": [1]}, id="maps are joined"),
            pytest.param({"l": [2]}, {"a": {"b": 1}, "l": [2]}, id="a list is replaced"),
            pytest.param({"a": None}, {"l": [1]}, id="null takes away"),
            pytest.param({"a": 5}, {"a": 5, "l": [1]}, id="a value replaces a map"),
            pytest.param({"l": {"x": 1}}, {"a": {"b": 1}, "l": {"x": 1}}, id="a map replaces a list"),
        ],
    )
    def test_a_value_merge(self, above, result):
        assert merge({"a": {"b": 1}, "l": [1]}, above) == result

    def test_containers_are_joined_by_name(self):
        spec = pod_spec(
            Pod(
                "a",
                pod_spec={
                    "containers": [
                        {"name": "main", "imagePullPolicy": "Always", "env": [{"name": "A", "value": "2"}]},
                        {"name": "helper", "image": "b"},
                    ],
                    "nodeSelector": {"disk": "ssd"},
                },
            ),
            {"A": "1", "B": "1"},
        )
        main, helper = spec["containers"]
        assert (main["image"], main["imagePullPolicy"]) == ("a", "Always")
        assert main["env"] == [{"name": "A", "value": "2"}, {"name": "B", "value": "1"}]
        assert helper == {"name": "helper", "image": "b"}
        assert spec["nodeSelector"] == {"disk": "ssd"}

    @given(
        st.recursive(st.none() | st.integers() | texts, lambda inner: st.lists(inner) | st.dictionaries(texts, inner))
    )
    def test_whatever_is_written_is_taken(self, above):
        written = {"containers": above, "x": above}
        assert merge({"containers": [{"name": "main"}]}, written) is not written


def expanded(text: str, env: dict[str, str]) -> str:
    """As a kubelet does it: `$$` is a dollar, `$(NAME)` a variable that there is."""
    out, at = "", 0
    while at < len(text):
        if text[at] != "$":
            out, at = out + text[at], at + 1
        elif text[at + 1 : at + 2] == "$":
            out, at = out + "$", at + 2
        elif text[at + 1 : at + 2] == "(" and ")" in text[at:]:
            name = text[at + 2 : text.index(")", at)]
            out, at = out + env.get(name, f"$({name})"), at + len(name) + 3
        else:
            out, at = out + "$", at + 1
    return out

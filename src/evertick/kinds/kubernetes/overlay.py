"""How what a person wrote about a pod is laid over what we would have written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Json = dict[str, Any]

# Lists of things with names: an item is laid over the one of the same name, as the cluster's own tools do it.
_NAMED: Final = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
    "hostAliases": "ip",
}


def laid_over(base: Mapping[str, Any], above: Mapping[str, Any]) -> Json:
    """Maps are joined, named items too, any other value is replaced; null takes a value away."""
    result = dict(base)
    for name, value in above.items():
        if value is None:
            result.pop(name, None)
            continue
        result[name] = _joined(name, result.get(name), value)
    return result


def _joined(name: str, base: Any, value: Any) -> Any:
    if isinstance(value, Mapping):
        return laid_over(base if isinstance(base, Mapping) else {}, value)
    key = _NAMED.get(name)
    if key is None or not isinstance(value, list | tuple):
        return list(value) if isinstance(value, tuple) else value
    if not all(isinstance(item, Mapping) for item in value):
        return list(value)
    items: list[Any] = [dict(item) for item in base] if isinstance(base, list) else []
    for item in value:
        place = next((index for index, one in enumerate(items) if one.get(key) == item.get(key)), None)
        if place is None:
            items.append(laid_over({}, item))
        else:
            items[place] = laid_over(items[place], item)
    return items

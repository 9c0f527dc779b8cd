"""The context of a run, under the name that programs import."""

from evertick.executors.context import RunContext, StopRequested

__all__ = ["RunContext", "StopRequested"]

"""What a function is told about the run that it is called for, under the name that programs import."""

from evertick.executors.context import RunContext, StopRequested

__all__ = ["RunContext", "StopRequested"]

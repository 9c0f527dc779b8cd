"""The limits of a definition."""

from __future__ import annotations

PRIORITY_MAX = 1_000_000
TAGS_MAX = 50
TAG_MAX = 50
PARALLEL_MAX = 10_000
RETRIES_MAX = 1_000
DELAY_MINUTES_MAX = 5_256_000
STEPS_MAX = 1_000
STEP_NAME_MAX = 100
ITEMS_PARALLEL_MAX = 100
"""Items of one step that run at once: each is a process."""
SCHEDULES_MAX = 100
"""Per job and kind: each costs a computation whenever the job is read."""
REPEATS_MAX = 1_000_000
ENV_MAX = 500
DOTENV_MAX = 10
PARAMS_MAX = 100
PATTERN_MAX = 200
PATH_MAX = 4_096
URL_MAX = 4_096
QUEUE_MAX = 64
LABEL_MAX = 63
LABELS_MAX = 32
CONDITIONS_MAX = 50
JOBS_MAX = 100
"""Jobs that one field of a job may name."""
CHANNELS_MAX = 20
ACTIONS_MAX = 20

"""docs/reference/settings.md: every setting, from the table that the loader uses."""

from __future__ import annotations

from evertick.settings.catalogue import Part, parts
from evertick.settings.parts import Setting

HEAD = """# Settings

Settings apply to the scheduler, not to one job. A value comes from the last of these that sets it:

1. the default;
2. `evertick.toml` in the folder of the job files, or the file named by `EVERTICK_CONFIG` or `--config`;
3. the environment variable, `EVERTICK_…`; an empty variable does not count;
4. an option on the command line.

```toml
timezone = "Europe/Berlin"
store = "env:DATABASE_URL"

[queues]
reports = 2

[notifications]
on_failure = ["ops"]

[notifications.channels]
ops = {slack = "env:SLACK_HOOK"}
```

`evertick settings FOLDER` shows the effective values and where each comes from. It prints all errors at once, with the
line and what to write instead:

```text
jobs/evertick.toml:5: unknown setting 'loop.prerad'. Did you mean 'loop.preread'?
```

- A *duration* is a text such as `"90s"`, `"1h30m"` or `"250ms"`. A *size* is a number of bytes, or a text such as
  `"64MiB"`.
- A *path* in the file is relative to the file; in a variable or an option, to the current folder.
- A list is `["one", "two"]` in the file and `one,two` in a variable. A table of numbers is `reports=2,mail=5` in a
  variable.
- Do not write **secrets** into the file. Write where they are: `"env:NAME"` or `"file:PATH"`. A variable can also hold
  the secret itself. Evertick reads secrets when it needs them, and never shows them.

The scheduler reads the settings when it starts. It watches job files, but not this file: restart it after a change.

## Where the state is

A scheduler keeps its state (SQLite ledger, logs, tokens, socket) in `.evertick` in the folder of the job files, or
where `state` says. Commands need only the folder. They look for the state in this order:

1. `--store` or `--server`;
2. `state` and `store` in `evertick.toml` or the environment;
3. the pointer that the scheduler wrote at its last start: `.evertick-state.json` in the folder. If the scheduler cannot
   write there, it uses `/run/evertick/places` and `/var/lib/evertick/places` (a systemd service, by its
   `RuntimeDirectory` and `StateDirectory`), otherwise `~/.local/state/evertick/places` of its user.

Commands trust a pointer only if it belongs to root, to you, or to the owner of the folder; for a folder of root, also
if it belongs to the system service. They report any other pointer on stderr and ignore it. A store URL with a password
is never written down: with such a ledger, commands need a running scheduler or `EVERTICK_STORE`.
"""


def settings_page() -> str:
    return "\n\n".join([HEAD.rstrip("\n"), *map(_section, parts())]) + "\n"


def _section(part: Part) -> str:
    title = f"## `[{part.key}]`\n\n{part.about}" if part.key else "## Top level"
    rows = [
        f"| `{one.key.rpartition('.')[2]}` | {one.kind.word} | {_default(one)} | {one.meaning} | {_variable(one)} |"
        for one in part.settings
    ]
    head = ["| setting | value | default | meaning | variable |", "| --- | --- | --- | --- | --- |"]
    return "\n".join([title, "", *head, *rows])


def _default(setting: Setting) -> str:
    shown = setting.kind.show(setting.default)
    return setting.shown or (f"`{shown}`" if shown else "")


def _variable(setting: Setting) -> str:
    return f"`{setting.variable}`" if setting.variable else ""

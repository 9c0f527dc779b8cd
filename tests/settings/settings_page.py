"""What docs/settings.md says: every setting, from the table that the loader reads by."""

from __future__ import annotations

from evertick.settings.catalogue import Part, parts
from evertick.settings.parts import Setting

HEAD = """# Settings

What holds for the scheduler, whatever its jobs say. A setting comes from, the later ones going before:

1. its default;
2. the file `evertick.toml` in the folder of the jobs, or the file that `EVERTICK_CONFIG` or `--config` names;
3. its variable in the environment, `EVERTICK_…`; an empty one is one that is not set;
4. an option of the command line.

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

`evertick settings FOLDER` shows what holds and where each value comes from. All that is wrong is told at once,
with the line and what to write instead:

```text
jobs/evertick.toml:5: unknown setting 'loop.prerad'. Did you mean 'loop.preread'?
```

- A *duration* is a text such as `"90s"`, `"1h30m"` or `"250ms"`; a *size* is a number of bytes or a text such as
  `"64MiB"`.
- A *path* in the file is meant from where the file lies; in a variable or an option, from the working folder.
- A list is written `["one", "two"]` in the file, and `one,two` in a variable. A table of numbers is `reports=2,mail=5`
  there.
- **Secrets** are never written in the file. It says where they are kept: `"env:NAME"` or `"file:PATH"`. A variable of a
  secret may hold the secret itself. They are looked up when they are needed, and nothing shows them.

The settings are read when the scheduler starts. Job files are watched; this file is not.

## Where the state is

What a scheduler keeps (the SQLite ledger, logs, tokens, the socket) is in `.evertick` in the folder of the jobs, or
where `state` says. Commands find it from the folder alone, in this order: `--store` or `--server`; `state` and
`store` in `evertick.toml` or the environment; the pointer that the scheduler left when it was started last. The
pointer is `.evertick-state.json` in the folder. Where the scheduler may not write there, it is in
`/run/evertick/places` and `/var/lib/evertick/places` (a systemd service, by its `RuntimeDirectory` and
`StateDirectory`), or else in `~/.local/state/evertick/places` of its user.

A pointer is used only if it belongs to root, to you, or to the owner of the folder; for a folder of root, also if it
belongs to the system's service. Any other is named on stderr and left alone. An address with a password is never
noted: with such a ledger, commands need a running scheduler or `EVERTICK_STORE`.
"""


def settings_page() -> str:
    return "\n\n".join([HEAD.rstrip("\n"), *map(_section, parts())]) + "\n"


def _section(part: Part) -> str:
    title = f"## `[{part.key}]`\n\n{part.about}" if part.key else "## Before all tables"
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
    return f"`{setting.variable}`" if setting.kind.word != "table of receivers" else ""

"""The faults that Evertick survives: the fault, the tests that cause it, and what the user sees."""

from __future__ import annotations

from dataclasses import dataclass

CRASH = "tests/crash/test_crash_points.py"
KILLS = "tests/processes/test_kills.py"
KEEPER = "tests/executors/test_keeper_faults.py"
HUNG = "tests/executors/test_hung_keeper.py"
FLEET = "tests/fleet/test_faults.py"
AWAY = "tests/processes/test_ledger_away.py"
TAKEOVER = "tests/processes/test_takeover.py"
SQL = "tests/stores/test_sql_faults.py"
SQLITE = "tests/stores/test_sqlite.py"
FILES = "tests/stores/test_files_damage.py"
SERVERS = "tests/stores/test_sql_servers.py"
API = "tests/api/test_server.py"
EVENTS = "tests/definitions/test_watch_events.py"
MACHINE = "tests/processes/test_machine_faults.py"


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    done: str
    seen: str
    """What the user sees."""
    tests: tuple[str, ...] = ()
    """None: not run."""
    rounds: int = 1
    """How often `make faults` runs the tests."""
    kept: str = "nothing"
    """What is lost, as the tests check it."""


FAULTS: tuple[Fault, ...] = (
    Fault(
        "crash at every call of the ledger",
        "the scheduler is killed before and after calls of the store, on SQLite, files, PostgreSQL and MariaDB",
        "the same history as without the crash",
        (CRASH,),
    ),
    Fault(
        "crash after a crash",
        "a second crash while the first is being settled",
        "waiting runs start",
        ("tests/crash/test_second_crash.py",),
        rounds=5,
    ),
    Fault(
        "`kill -9` of the scheduler, under load",
        "a scheduler with 28 occurrences a second is killed at random instants, on SQLite and PostgreSQL; a file "
        "records each start",
        "runs that were active are adopted; no run starts twice, `evertick verify` finds no gap",
        (KILLS,),
    ),
    Fault(
        "`kill -9` of scheduler, keeper, API and member in turn, under load",
        "`evertick serve` with seven jobs each second, two of them on a member of a fleet; one process after another "
        "is killed at random instants, the member's worker and keeper included",
        "no occurrence is missing and no attempt starts twice; runs that went down with their keeper are `lost` and "
        "retried; the API is back in seconds",
        ("tests/processes/test_kills_in_turn.py",),
        rounds=10,
        kept="nothing; the result of a run whose keeper died is unknown, and is reported so",
    ),
    Fault(
        "`kill -9` of the keeper, under load",
        "keepers are killed while 60 runs are started",
        "runs that went down with their keeper are `lost` and are retried; the others continue",
        (
            f"{KEEPER}::test_nothing_is_run_twice_and_nothing_is_forgotten_when_keepers_are_killed_again_and_again",
            f"{KEEPER}::test_runs_continue_when_their_keeper_is_killed_and_are_lost_when_they_end",
            f"{KEEPER}::test_what_died_with_its_keeper_is_lost",
        ),
        rounds=10,
        kept="nothing; the result of a run whose keeper died is unknown, and is reported so",
    ),
    Fault(
        "`kill -9` of the API",
        "the API process is killed while jobs run",
        "jobs are not affected; the API is back in seconds",
        (f"{API}::test_a_killed_api_affects_no_job_and_is_restarted",),
        rounds=5,
    ),
    Fault(
        "`kill -9` of a member of the fleet",
        "the worker, the whole member, and a member that stays away",
        "a killed worker costs nothing; the runs of a dead member are `lost` after its lease and are retried elsewhere",
        (
            f"{FLEET}::test_a_worker_that_is_killed_costs_nothing",
            f"{FLEET}::test_a_member_whose_machine_died_loses_its_attempt",
            f"{FLEET}::test_a_member_that_is_killed_and_stays_away_leaves_nothing_running",
        ),
        rounds=3,
    ),
    Fault(
        "`kill -9` of a node, others take over",
        "one of several nodes on PostgreSQL and MariaDB is killed",
        "its jobs fire on the others within ten seconds",
        (f"{TAKEOVER}::test_the_jobs_of_a_killed_node_fire_on_the_others_within_ten_seconds",),
        rounds=3,
    ),
    Fault(
        "no leader election at all",
        "several nodes plan the same jobs at the same time",
        "one entry for each occurrence: the unique key decides",
        (
            f"{TAKEOVER}::test_without_any_leadership_the_unique_key_alone_keeps_history_free_of_duplicates",
            f"{SQL}::TestNodesThatRace::test_the_same_occurrences_are_entered_once_by_many",
        ),
        rounds=3,
    ),
    Fault(
        "power loss",
        "all processes end at the same instant, and their file system, an ext4 of its own, loses what was not synced, "
        "again and again; on SQLite and files, as root",
        "the next start continues; runs that were active are `lost` and retried, and no attempt starts twice",
        ("tests/processes/test_power_loss.py",),
        kept="nothing that was acknowledged; the result of a run that was active is unknown, and is reported so",
    ),
    Fault(
        "full disk",
        "the file system of the state, 24 MB, is filled to the last byte; writes of the ledger, logs and the journal "
        "fail for a while by a limit on the size of files",
        "planning pauses and is caught up; a log has a mark where it was cut; `/readyz` fails meanwhile",
        (
            f"{MACHINE}::test_a_small_disk_that_is_full_for_a_while",
            f"{AWAY}::test_a_disk_that_is_full_for_a_while",
            f"{SQLITE}::TestAFullDisk",
            f"{FILES}::TestFullDisk",
            f"{KEEPER}::test_a_full_disk_costs_the_log_and_not_the_run",
            f"{KEEPER}::test_while_the_journal_cannot_be_written_nothing_is_started_and_outcomes_are_not_lost",
        ),
        rounds=3,
        kept="nothing of the ledger; output that does not fit",
    ),
    Fault(
        "read-only disk",
        "the kernel turns the file system of the state, an ext4 of its own, read-only after an error; it is repaired, "
        "and the scheduler is started again; as root",
        "planning pauses, with `store.away` in the log; the start after the repair catches up",
        (f"{MACHINE}::test_a_disk_that_fails_and_turns_read_only_until_it_is_repaired",),
        rounds=3,
        kept="nothing; the result of a run that was active is unknown, and is reported so",
    ),
    Fault(
        "read-only database",
        "a database that is or turns read-only, on PostgreSQL and MariaDB",
        "the scheduler refuses to start, or waits, and says why",
        (
            f"{SERVERS}::TestPostgres::test_a_read_only_database_is_refused",
            f"{SERVERS}::TestPostgres::test_a_database_that_turns_read_only_is_refused_on_reconnect",
            f"{SERVERS}::TestMysql::test_a_read_only_server_is_refused",
        ),
        rounds=3,
    ),
    Fault(
        "flipped bytes in the ledger",
        "bytes are changed or cut off, in SQLite, its write-ahead log and the files store",
        "SQLite: no start, and the command that restores the newest backup; `ledger.commits_dropped` in the log and in "
        "`evertick doctor` after damage in the write-ahead log. Files: the generation before",
        (
            f"{SQLITE}::TestDamage",
            f"{SQLITE}::TestFullCheck",
            "tests/dispatch/test_integrity.py::test_a_flipped_bit_is_found_beside_a_store_at_work",
            f"{FILES}::TestFlippedBytes",
            f"{FILES}::TestTornLines",
        ),
        rounds=5,
        kept="nothing in silence: what is lost is reported, but for the last commit of a write-ahead log",
    ),
    Fault(
        "restored backup",
        "a ledger is replaced by its backup, also by a damaged one",
        "`evertick db restore` checks the backup and keeps the previous ledger",
        ("tests/stores/test_transfer.py::TestRestore",),
        rounds=5,
        kept="what happened after the backup",
    ),
    Fault(
        "clock set forward or back",
        "the clock jumps by seconds to hours while the loop runs, on the simulated clock",
        "a jump forward is settled like a downtime; after a jump back nothing is decided twice; both are logged",
        (
            "tests/loop/test_time.py",
            "tests/dispatch/test_dispatcher.py::test_a_jump_of_the_clock_is_delivered_before_later_messages",
        ),
        rounds=5,
    ),
    Fault(
        "clock set forward or back, of a real scheduler",
        "libfaketime sets the wall clock of `evertick serve` by minutes to hours, forward and back, over the nights of "
        "March and October in which Berlin changes its clocks; the keeper and the clocks since boot are not set",
        "a job at 02:30 runs once in either night; `clock.jumped` in the log; `evertick verify` finds no gap",
        (f"{MACHINE}::test_a_wall_clock_that_is_set_loses_nothing_and_repeats_nothing",),
    ),
    Fault(
        "suspended process (SIGSTOP)",
        "a node, a keeper, a member and a scheduler of a fleet are stopped beyond their leases and continue; "
        "`evertick serve` is stopped for a minute",
        "another takes over; the suspended one writes and launches nothing that another owns by then; a single "
        "scheduler catches up",
        (
            f"{MACHINE}::test_a_scheduler_that_is_stopped_for_long_catches_up",
            f"{TAKEOVER}::test_a_node_that_slept_past_its_lease_writes_and_launches_nothing_of_what_is_no_longer_its_own",
            f"{HUNG}::test_a_frozen_keeper_is_replaced_and_its_runs_continue",
            f"{FLEET}::test_what_a_frozen_member_runs_has_ended_when_it_is_given_up",
            f"{FLEET}::test_a_scheduler_that_was_frozen_gives_up_no_member",
        ),
        rounds=2,
    ),
    Fault(
        "database restart",
        "PostgreSQL is killed under a running node and comes back, and PostgreSQL and MariaDB under an open store",
        "planning pauses and is caught up; `store.away` and `store.back` in the log",
        (f"{AWAY}::test_a_database_that_is_killed_and_comes_back_under_a_running_node", f"{SQL}::TestAServerThatDies"),
        rounds=3,
    ),
    Fault(
        "database failover to a replica",
        "a PostgreSQL primary is killed under a running node, its synchronous streaming replica is promoted, and the "
        "address leads to the replica",
        "planning pauses and is caught up; `store.away` and `store.back` in the log",
        ("tests/processes/test_failover.py",),
        rounds=3,
        kept="nothing; with an asynchronous replica, the commits that it had not received",
    ),
    Fault(
        "network between a node and its database is cut",
        "nothing arrives in either direction, and no connection breaks, until another node has taken over; on "
        "PostgreSQL and MariaDB",
        "its jobs fire on the other nodes; the node that is cut off starts nothing after its lease, and rejoins",
        (f"{TAKEOVER}::test_a_node_that_is_cut_off_from_its_database_starts_nothing_of_what_another_has_taken",),
        rounds=2,
    ),
    Fault(
        "the reply to a commit is lost",
        "the connection breaks after the commit and before its answer, for commits, records and leases",
        "the write is repeated and has one effect",
        (f"{SQL}::TestAnAnswerThatIsLost",),
        rounds=10,
    ),
    Fault(
        "deadlocks and races in the database",
        "nodes lock the same rows in opposite order, and race for leases and places",
        "the database ends one of them, which is repeated; both succeed",
        (f"{SQL}::TestNodesThatRace", f"{SQL}::TestManyNodes"),
        rounds=3,
    ),
    Fault(
        "slow disk",
        "each `fsync` of `evertick serve` and its keeper takes a second longer (injected by strace)",
        "runs start late and are complete",
        (f"{MACHINE}::test_on_a_slow_disk_runs_are_late_and_complete",),
        rounds=3,
    ),
    Fault(
        "too few file descriptors",
        "the limit of descriptors is reached in the scheduler, the keeper and the API",
        "work waits, and continues when there are some",
        (
            f"{SQL}::test_a_process_without_descriptors_has_no_ledger_until_there_are_some",
            f"{KEEPER}::test_a_keeper_without_a_free_descriptor_refuses_and_takes_it_later",
            f"{KEEPER}::test_a_keeper_without_free_descriptors_continues_and_starts_the_rest_later",
            f"{API}::test_a_scheduler_and_a_keeper_without_descriptors_continue_when_there_are_some_again",
        ),
        rounds=2,
    ),
    Fault(
        "no room for another process",
        "the kernel creates no process when a run starts: the limit of processes, or the same error by strace as root",
        "the executor refuses the run, and it starts later",
        (f"{KEEPER}::test_a_machine_without_room_for_another_process_refuses_and_takes_it_later",),
        rounds=5,
    ),
    Fault(
        "memory limit of the scheduler",
        "`evertick serve` gets no or little more memory than it has, by a limit of its address space and by a cgroup, "
        "while 60 large job files are added",
        "it continues, or ends with exit code 1 and `process.failed` in the log, or the kernel kills it; the next "
        "start continues",
        ("tests/processes/test_memory_limit.py",),
    ),
    Fault(
        "overflow of the file watcher",
        "more edits than the queue of the kernel holds",
        "one scan finds all edits; the overflow is logged",
        (
            f"{EVENTS}::test_an_overflow_of_the_queue_causes_a_scan_and_is_reported_once",
            f"{EVENTS}::test_the_kernel_reports_that_its_queue_overflowed",
        ),
        rounds=5,
    ),
    Fault(
        "half-written files",
        "a file is written in two halves, renamed over, deleted and created, replaced by a checkout of 5,000",
        "the job keeps its last good version until the file is complete",
        (
            f"{EVENTS}::test_a_file_that_is_written_in_two_halves_counts_when_its_writer_closes_it",
            f"{EVENTS}::test_an_editor_that_renames_over_the_file",
            "tests/definitions/test_watch.py::test_a_file_that_cannot_be_parsed_waits_before_it_is_an_error",
            "tests/definitions/test_watch.py::test_a_checkout_of_five_thousand_files_is_followed",
        ),
        rounds=3,
    ),
    Fault(
        "100,000 occurrences in one second",
        "100,000 jobs are due at the same second, on SQLite; *times* counts the jobs",
        "each has one entry and runs once, late by what the machine needs for all",
        ("tests/processes/test_one_second.py",),
    ),
    Fault(
        "log flood",
        "a gigabyte without a line feed, random bytes, endless lines",
        "the log keeps its beginning and its end, with a mark between them; the keeper stays below 80 MiB",
        (
            f"{KEEPER}::test_a_flood_is_cut_in_the_middle_and_costs_no_memory",
            f"{KEEPER}::test_endless_output_neither_delays_others_nor_keeps_its_run_from_being_stopped",
        ),
        kept="the middle of the log",
    ),
    Fault(
        "poison YAML",
        "alias bombs, 100,000 brackets, files above the limits, 8,000 mutations of a job",
        "errors with file, line and column; other files are not affected",
        (
            "tests/definitions/test_yaml.py::TestLimits",
            "tests/definitions/test_fuzz.py",
            "tests/definitions/test_source.py::test_a_bad_file_does_not_affect_another",
        ),
    ),
    Fault(
        "duplicate names",
        "two files define the same job",
        "errors for both files; a loaded job continues with its first file",
        (
            "tests/definitions/test_source.py::test_two_files_with_one_id_are_errors_of_both_and_neither_is_loaded",
            "tests/definitions/test_watch.py::test_a_second_file_with_the_same_id_leaves_the_first_at_work",
        ),
        rounds=10,
    ),
    Fault(
        "reused process ids",
        "after a restart of the keeper or of the machine another process has the pid of a run",
        "the other process is left alone; the run is `lost`",
        (
            f"{KEEPER}::test_a_process_is_known_by_pid_and_start_and_boot",
            f"{KEEPER}::test_after_a_restart_of_the_machine_the_unknown_is_lost_and_not_run_again",
            f"{KEEPER}::test_a_process_is_the_same_only_with_its_start",
        ),
        rounds=5,
        kept="nothing; the result of such a run is unknown, and is reported so",
    ),
    Fault(
        "network between the scheduler and the fleet is cut",
        "in one or both directions, for less and for more than the lease; the hub dies and comes back",
        "less than the lease costs nothing; beyond it an attempt has ended before another begins",
        (f"{FLEET}::TestTheNetwork", f"{FLEET}::test_dasks_scheduler_may_die_and_come_back"),
        rounds=2,
    ),
    Fault(
        "upgrade and return",
        "nodes are replaced one after another by the next version, and back, under load",
        "no downtime, nothing decided twice",
        ("tests/processes/test_rolling_upgrade.py",),
    ),
)

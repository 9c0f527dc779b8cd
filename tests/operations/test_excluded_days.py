"""Does the calendar of days say which coming days the calendars of jobs exclude?"""

from __future__ import annotations

from datetime import date

from evertick.definitions.source import Folder
from evertick.model.calendar import Calendar, CalendarRule, Shift, day_of_date
from evertick.model.instant import HOUR
from evertick.model.job import Job
from evertick.model.schedule import AtSpec, CalendarSpec, CronSpec
from evertick.operations import calendar_days
from evertick.operations.local import LocalOperations
from evertick.operations.results.schedule import ExcludedDay
from tests.operations.ledger import at

FAIR = Calendar("fair", (), (day_of_date(date(2026, 3, 3)),), ("Fair of March",))
SUNDAYS = Calendar("sundays", (6,))


def job_on(name, rule, text="0 9,10 * * *"):
    return Job(name, "", (CalendarSpec(CronSpec(text, "UTC"), rule, "UTC"),))


def ask(store, *jobs):
    folder = Folder(jobs={one.id: one for one in jobs})
    operations = LocalOperations(store, lambda: folder, now=lambda: at(4.5))  # 2026-03-02

    def days(job_id=None, through="2026-03-08"):
        return operations.calendar(job_id, "2026-03-01", through, "UTC").excluded

    return days


def test_the_days_of_all_jobs_have_their_names_and_how_many_jobs_they_concern(store):
    skipping, moving = CalendarRule((FAIR, SUNDAYS)), CalendarRule((FAIR,), (), Shift.NEXT)
    found = ask(store, job_on("a", skipping), job_on("b", moving), Job("c", "", (CronSpec("0 9 * * *", "UTC"),)))()
    assert found == (ExcludedDay("2026-03-03", ("Fair of March",), 2, 4), ExcludedDay("2026-03-08", ("Sunday",), 1, 2))


def test_the_days_of_one_job_are_its_own(store):
    days = ask(store, job_on("a", CalendarRule((SUNDAYS,))), job_on("b", CalendarRule((FAIR,))))
    assert [one.date for one in days("a")] == ["2026-03-08"]
    assert [one.date for one in days("b")] == ["2026-03-03"]


def test_a_day_on_which_the_job_is_not_due_is_not_excluded(store):
    assert ask(store, job_on("a", CalendarRule((FAIR,)), "0 9 4 * *"))() == ()


def test_a_one_off_runs_on_an_excluded_day(store):
    rule, one_off = CalendarRule((FAIR,)), AtSpec(at(24 + 9))
    job = Job("a", "", (CalendarSpec(CronSpec("0 9 3 3 *", "UTC"), rule, "UTC"), one_off))
    assert ask(store, job)() == ()
    later = Job("a", "", (job.schedules[0], AtSpec(one_off.instant + HOUR)))
    assert [one.occurrences for one in ask(store, later)()] == [1]


def test_of_very_many_calendars_the_nearest_days_are_counted(store, monkeypatch):
    monkeypatch.setattr(calendar_days, "EXCLUDED_MAX", 2)
    assert [one.date for one in ask(store, job_on("a", CalendarRule((FAIR, SUNDAYS))))()] == ["2026-03-03"]

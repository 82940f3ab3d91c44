"""Points in time sort as text, whatever their source."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given, strategies as st

from midturn.question.text import rfc3339

ZONES = st.builds(
    timezone, st.timedeltas(min_value=timedelta(hours=-23), max_value=timedelta(hours=23))
)
MOMENTS = st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1), timezones=ZONES)  # noqa: DTZ001  the zone is drawn


@given(MOMENTS)
def test_a_time_is_written_in_utc_with_microseconds(moment: datetime) -> None:
    assert (
        rfc3339(moment)
        == f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
    )


def test_a_whole_second_is_written_with_six_digits() -> None:
    assert rfc3339(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)) == "2026-01-02T03:04:05.000000Z"

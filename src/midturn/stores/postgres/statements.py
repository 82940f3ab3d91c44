"""The statements of a store in PostgreSQL. `{s}` is the schema, `{c}` the class of its advisory
locks.

An answer and an append are one statement each, and therefore atomic. A process is considered
alive while a session holds the advisory lock with its number. Safety does not depend on this lock,
only on the fence, which is incremented whenever a conversation gets another writer.
"""

from __future__ import annotations

# A server restart ends all sessions. A process is not considered dead until it has had time to
# reconnect.
_YOUNG = "(now() - pg_postmaster_start_time() < interval '5 seconds')"
_ALIVE = (
    f"(c.holder is not null and ({_YOUNG} or not pg_try_advisory_xact_lock_shared({{c}},"
    " c.holder)))"
)

# The lines of the last turn. The upper bound is redundant, but without it the server expects a
# third of all events, and spends time on compiling the statement (JIT).
_LAST_LINES = """array(
  select line from {s}.event e where e.conversation = c.id and position >= c.turn_at and position < c.head order by position
)"""

INSERT = """
insert into {s}.conversation as c (id, metadata, fence, holder, held_since, wake)
values (%(id)s, %(metadata)s, 1, %(holder)s, case when %(holder)s::int is not null then now() end, now())
on conflict do nothing
returning c.fence
"""

# Adds a conversation from another store.
ADD = """
with own as (
  insert into {s}.conversation (id, metadata, head, turn_at, unfinished, asking, answered, wake)
  values (%(id)s, %(metadata)s, cardinality(%(lines)s::bytea[]), coalesce(%(turn_at)s, 0), %(unfinished)s, %(asking)s, %(answered)s,
    case when %(due)s then now() else %(deadline)s::timestamptz end)
  on conflict do nothing
  returning id
), written as (
  insert into {s}.event (conversation, position, line)
  select own.id, t.place::int - 1, t.line from own, unnest(%(lines)s::bytea[]) with ordinality as t(line, place)
)
select id from own
"""

HOLD = f"""
update {{s}}.conversation c
set holder = %(holder)s, fence = fence + 1, held_since = now(), wake = now()
where id = %(id)s and not {_ALIVE}
returning c.id, c.fence, c.head, c.handed_seq
"""

WHO_HOLDS = "select c.holder, c.held_since from {s}.conversation c where id = %(id)s"

# A dead process is looked up once for each holder, not for each of its conversations. The pauses
# are random, so that turns that failed together (because a tool of one turn killed their process)
# are not claimed together again.
CLAIM = f"""
with dead as materialized (
  select holder from (select distinct holder from {{s}}.conversation where holder is not null) as holders
  where not {_YOUNG} and pg_try_advisory_xact_lock_shared({{c}}, holder)
), due as (
  select id from {{s}}.conversation
  where wake <= now() and unfinished and (holder is null or holder in (select holder from dead))
    and id <> all(%(without)s)
  order by wake limit %(limit)s
  for update skip locked
)
update {{s}}.conversation c
set holder = %(holder)s, fence = fence + 1, held_since = now(), tries = tries + 1,
    wake = now() + least(300, 0.25 * (2 ^ least(tries, 20)) * (1 + random())) * interval '1 second'
from due where c.id = due.id
returning c.id, c.fence, c.head, c.handed_seq
"""

# If an answer was queued since the last check, a worker must examine the turn immediately. This is
# read from the row, because the row is locked here: a query of the table would miss answers that
# are committed at the same time.
RELEASE = """
with own as (
  update {s}.conversation
  set holder = null, held_since = null, fence = fence + 1,
      wake = case
        when not unfinished then null
        when handed_seq <> %(handed_seq)s or %(again)s = 'now' then now()
        when %(again)s = 'later' then now() + least(300, 0.25 * (2 ^ least(tries, 20)) * (1 + random())) * interval '1 second'
        else %(deadline)s::timestamptz
      end,
      tries = case when %(again)s = 'later' then tries + 1 else tries end
  where id = %(id)s and fence = %(fence)s
  returning wake
)
select wake from own where wake is not null
"""

MINE = "select id, fence from {s}.conversation where holder = %(holder)s"

LINES = "select line from {s}.event where conversation = %(id)s order by position"

_WRITTEN = """
written as (
  insert into {s}.event (conversation, position, line)
  select own.id, %(head)s + t.place::int - 1, t.line
  from own, unnest(%(lines)s::bytea[]) with ordinality as t(line, place)
), closed as (
  delete from {s}.handed h using own where h.conversation = own.id and %(may_close)s
    and (split_part(h.event_id, e'\\x1f', 1) <> all(%(waiting)s) or h.event_id = any(%(noted)s))
)
"""

_STATE = """
  head = head + cardinality(%(lines)s::bytea[]), turn_at = coalesce(%(turn_at)s, turn_at),
  unfinished = %(unfinished)s, asking = %(asking)s, answered = %(answered)s, tries = 0"""

APPEND = f"""
with own as (
  update {{s}}.conversation set {_STATE}
  where id = %(id)s and fence = %(fence)s and head = %(head)s
  returning id
), {_WRITTEN}
select id from own
"""

TAKE = "select pg_try_advisory_xact_lock(%(number)s) as taken"

# Sent in a separate transaction. The server commits notifying transactions one after the other,
# and each would block the others during its sync. This transaction does not wait for its sync,
# because nothing depends on a notification.
NOTIFY = """
with unsynced as materialized (select set_config('synchronous_commit', 'off', true))
select pg_notify(channel, payload) from unsynced, unnest(%(channels)s::text[], %(payloads)s::text[]) as t(channel, payload)
"""

# An answer to a nested turn sets the wake time of the outermost conversation, and increments its
# `handed_seq`. A process that has the outermost conversation locked compares this number when it
# releases the lock.
SETTLE = f"""
with own as (
  update {{s}}.conversation set {_STATE},
      holder = null, held_since = null, fence = fence + 1,
      wake = case when not %(unfinished)s then null when %(answered)s then now() else coalesce(%(deadline)s::timestamptz, wake) end
  where id = %(id)s and fence = %(fence)s and head = %(head)s and holder is not distinct from %(holder)s
  returning id, head
), {_WRITTEN}, around as (
  update {{s}}.conversation set wake = now(), answered = true, handed_seq = handed_seq + 1
  where id = %(root)s and unfinished and exists (select from own)
  returning id, -handed_seq as place
)
select own.id,
  case when %(root)s::text is null then {{s}}.woken(own.id, own.head)
    when around.id is not null then {{s}}.woken(around.id, around.place) end
from own left join around on true
"""

LAST_TURN = f"""
select c.head, c.fence, c.holder, c.held_since, {_ALIVE} as alive, c.turn_at,
  {_LAST_LINES} as lines,
  array(select submission from {{s}}.handed h where h.conversation = c.id) as handed
from {{s}}.conversation c where id = %(id)s
"""

HAND_OVER = """
with own as (
  update {s}.conversation set handed_seq = handed_seq + 1
  where id = %(id)s and holder = %(holder)s and fence = %(fence)s
  returning id
), put as (
  insert into {s}.handed (conversation, event_id, submission)
  select id, %(event_id)s, %(submission)s from own
  on conflict do nothing
  returning conversation
)
select conversation from put
"""

COLLECT = """
select c.handed_seq, array(select submission from {s}.handed h where h.conversation = c.id order by event_id) as handed,
  array(select event_id from {s}.handed h where h.conversation = c.id order by event_id) as handed_ids
from {s}.conversation c where id = %(id)s and fence = %(fence)s
"""

REFUSE = "delete from {s}.handed where conversation = %(id)s and event_id = %(event_id)s"

ASKING = f"""
select c.id, {_LAST_LINES} as lines
from {{s}}.conversation c
where asking and id >= %(first)s and (%(only)s::text is null or id = %(only)s)
order by id limit %(limit)s
"""

# The few conversations with queued answers are looked up once. With a subquery for each row, the
# planner would overestimate the cost and use JIT compilation.
_READY = f"""unfinished and (answered or c.id = any(array(select conversation from {{s}}.handed))) and not {_ALIVE}"""

IDS = {
    "all": "select id from {s}.conversation c where id > %(after)s order by id limit %(limit)s",
    "begun": (
        "select id from {s}.conversation c where head > 0 and id > %(after)s order by id limit"
        " %(limit)s"
    ),
    "open": (
        "select id from {s}.conversation c where unfinished and id > %(after)s order by id limit"
        " %(limit)s"
    ),
    "ready": (
        f"select id from {{s}}.conversation c where {_READY} and id > %(after)s order by id limit"
        " %(limit)s"
    ),
}

# Turns that may have been interrupted. A run that ends because it waits only for people sets no
# wake time.
LEFT = f"""
select c.id, {_LAST_LINES} as lines from {{s}}.conversation c
where unfinished and wake is not null and not {_ALIVE} and id > %(after)s order by id
"""

LAST_TURN_OF = (
    f"select c.id, {_LAST_LINES} as lines from {{s}}.conversation c where id = any(%(ids)s)"
)

# A row contains the number of the last transaction that wrote it. Rows that are not visible yet
# contain the number of a running or later transaction.
GROWN = """
select t.now::text as now, c.id, c.head
from (select pg_snapshot_xmin(pg_current_snapshot()) as now) t
left join {s}.conversation c on %(since)s::text is null or age(c.xmin) <= age(%(since)s::text::xid8::xid)
"""

# The wake time of a turn that waits for people is its first deadline. A turn that waits for a
# worker may also have a deadline.
OVERDUE = (
    "select id from {s}.conversation c where wake <= now() and unfinished and asking and not"
    f" {_ALIVE} order by id"
)

NEWEST = """
select id from {s}.conversation where head > 0 and id < %(first)s order by id desc limit %(limit)s
"""


LISTED = """
select id, metadata from {s}.conversation
where head > 0 and id > %(after)s and (%(only)s::text[] is null or id = any(%(only)s)) order by id limit %(limit)s
"""

# Events up to a number of bytes, at least one; no other event is read. The number of events is
# limited as well, because otherwise the lengths of all later events would be added up.
PART = """
select c.metadata, c.head, array(
  select line from (
    select position, line, sum(octet_length(line)) over (order by position) - octet_length(line) as before
    from (
      select position, line from {s}.event e where e.conversation = c.id and position >= %(position)s order by position limit %(most)s
    ) next
  ) counted where before < %(bytes)s order by position
) as lines
from {s}.conversation c where id = %(id)s
"""

# Positions of the turns in the last events, last turn first. No other line is read.
LAST_TURNS = """
select c.head, array(
  select position from {s}.event e
  where e.conversation = c.id and position >= c.head - %(width)s and position < c.head and substring(line for %(length)s) = %(begins)s
  order by position desc limit %(count)s
) as turns
from {s}.conversation c where id = %(id)s
"""

TURNS_BEFORE = """
with turn as (
  select position, row_number() over (order by position) as number from {s}.event
  where conversation = %(id)s and substring(line for %(length)s) = %(begins)s
)
select position, number from turn
where number = least(%(before)s::bigint, (select count(*) + 1 from turn)) - %(count)s and number > 1
"""

READ = """
select c.metadata, array(select line from {s}.event e where e.conversation = c.id order by position) as lines
from {s}.conversation c where id = %(id)s
"""

METADATA = "select metadata from {s}.conversation where id = %(id)s"

DESCRIBE = (
    "update {s}.conversation set metadata = %(metadata)s where id = %(id)s and metadata ="
    " %(before)s returning id"
)

# The notification carries the ID, because the row no longer exists.
REMOVE = f"""
with gone as (
  delete from {{s}}.conversation c
  where id = %(id)s and not {_ALIVE} and (%(fence)s::bigint is null or fence = %(fence)s) and (%(head)s::int is null or head = %(head)s)
  returning id
)
select id, pg_notify(%(stirred)s, id) from gone
"""

# Created by `upgrade` or on first use. It is not part of the version of the tables, so older versions
# can use the same schema.
HAS_KEPT = (
    "select exists (select from pg_tables where schemaname = {n} and tablename = 'kept') as there"
)

MAKE_KEPT = """
create table if not exists {s}.kept (name text collate "C" primary key, content bytea not null)
"""

KEPT = "select name, content from {s}.kept where starts_with(name, %(beginning)s) order by name"

KEEP = """
insert into {s}.kept (name, content) values (%(name)s, %(content)s)
on conflict (name) do update set content = excluded.content
"""

FORGET = "delete from {s}.kept where name = %(name)s"

# Created by `upgrade` or on first use, like the table `kept`.
HAS_KEYS = "select exists (select from pg_tables where schemaname = {n} and tablename = 'conversation_key') as there"

MAKE_KEYS = """
create table if not exists {s}.conversation_key (
  key          bytea primary key,            -- SHA-256 of the key
  conversation text collate "C" not null unique references {s}.conversation on delete cascade
)
"""

WITHOUT_VERSION = {"kept": MAKE_KEPT, "conversation_key": MAKE_KEYS}
"""Statements that create the tables without a version, by name of the table."""

TABLES = "select tablename from pg_tables where schemaname = {n}"

FIND_KEY = "select conversation from {s}.conversation_key where key = %(key)s"

ASSIGN_KEY = """
insert into {s}.conversation_key (key, conversation) values (%(key)s, %(id)s)
on conflict (key) do nothing
"""

WHOLE = """
select c.id, c.fence, c.head, c.turn_at, c.unfinished, c.asking, c.answered,
  array(select line from {s}.event e where e.conversation = c.id order by position) as lines
from {s}.conversation c where id > %(after)s order by id limit %(limit)s
"""

MEND = """
update {s}.conversation set head = %(head)s, turn_at = %(turn_at)s, unfinished = %(unfinished)s, asking = %(asking)s,
  answered = %(answered)s, fence = fence + 1, wake = case when %(unfinished)s then now() end
where id = %(id)s and fence = %(fence)s
returning id
"""


# --------------------------------------------------------------------------------------------------
# The tables and their migrations. All columns except events and metadata can be computed from the
# events again


VERSION = 1

MIGRATIONS = {
    1: (
        """
create table {s}.conversation (
  id         text collate "C" primary key,   -- the time of creation in microseconds, so that ids sort by age
  metadata   bytea not null,                 -- metadata.json, as on disk
  head       int not null default 0,         -- number of events
  turn_at    int not null default 0,         -- position of the first event of the last turn
  unfinished boolean not null default false, -- the last turn is open
  asking     boolean not null default false, -- it has an open question
  answered   boolean not null default false, -- its turn can continue, because a person answered
  fence      bigint not null default 0,      -- incremented for each new writer; an append must contain the fence of its writer
  holder     int,                            -- the process that locked it; its advisory lock shows whether it is alive
  held_since timestamptz,
  handed_seq int not null default 0,         -- number of answers that were ever queued for holders
  tries      int not null default 0,         -- claims since the last durable event
  wake       timestamptz                     -- when a worker must examine the open turn; null: it waits for people, or is finished
) with (fillfactor = 70);
create index conversation_wake on {s}.conversation (wake) where wake is not null and unfinished;
create index conversation_asking on {s}.conversation (id) where asking;
create index conversation_unfinished on {s}.conversation (id) where unfinished;
create index conversation_holder on {s}.conversation (holder) where holder is not null;

create table {s}.event (
  conversation text collate "C" not null references {s}.conversation on delete cascade,
  position     int not null,
  line         bytea not null,               -- the bytes of the line in events.jsonl, without the newline
  primary key (conversation, position)
);

create table {s}.handed (                    -- queued answers for the process that locked the conversation; the first wins
  conversation text collate "C" not null references {s}.conversation on delete cascade,
  event_id     text collate "C" not null,
  submission   bytea not null,               -- as in answers/<event id>.json
  primary key (conversation, event_id)
);

create sequence {s}.holder as int cycle;

-- Runs inside the statement that records an answer. An engine replaces it, to wake its workers in the same transaction.
create function {s}.woken(conversation text, head int) returns void language sql as 'select';
"""
    ),
}

CURRENT = "select version from {s}.midturn"
EXISTS = "select to_regclass(%(table)s) is not null"
CREATE = """
create schema if not exists {s};
create table if not exists {s}.midturn (version int not null);
insert into {s}.midturn select 0 where not exists (select from {s}.midturn);
"""
SET_VERSION = "update {s}.midturn set version = {version}"

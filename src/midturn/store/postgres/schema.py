"""The tables, and how they come to be. Everything in them but the events and the metadata can be computed from the events again."""

from __future__ import annotations

VERSION = 1

MIGRATIONS = {
    1: """
create table {s}.conversation (
  id         text collate "C" primary key,   -- the time of creation in microseconds, so that ids sort by age
  metadata   bytea not null,                 -- metadata.json, as on disk
  head       int not null default 0,         -- how many events there are
  turn_at    int not null default 0,         -- where the last turn begins: reading from here is reading from the end
  unfinished boolean not null default false, -- the last turn is open
  asking     boolean not null default false, -- it has an open question
  answered   boolean not null default false, -- its turn can go on: a person has answered
  fence      bigint not null default 0,      -- grows whenever the conversation changes hands; every append names the one it was given
  holder     int,                            -- the process that holds it; its advisory lock says whether it lives
  held_since timestamptz,
  handed_seq int not null default 0,         -- how many answers were ever handed over to holders
  tries      int not null default 0,         -- claims since the last durable event
  wake       timestamptz                     -- when somebody must look at the open turn; null: it waits for people, or is finished
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

create table {s}.handed (                    -- answers for whoever holds the conversation; the first wins
  conversation text collate "C" not null references {s}.conversation on delete cascade,
  event_id     text collate "C" not null,
  submission   bytea not null,               -- as in answers/<event id>.json
  primary key (conversation, event_id)
);

create sequence {s}.holder as int cycle;

-- Runs inside the statement that records an answer. An engine puts its own in this place, to wake in the same transaction.
create function {s}.woken(conversation text, head int) returns void language sql as 'select';
""",
}

CURRENT = "select version from {s}.midturn"
EXISTS = "select to_regclass(%(table)s) is not null"
CREATE = """
create schema if not exists {s};
create table if not exists {s}.midturn (version int not null);
insert into {s}.midturn select 0 where not exists (select from {s}.midturn);
"""
SET_VERSION = "update {s}.midturn set version = {version}"

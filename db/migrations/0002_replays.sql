-- Named replays: what each was asked to do, and how far it has come. The offsets are JSON objects by partition number.
CREATE TABLE replays (
    owner           text        NOT NULL,             -- whose DLQ: a channel, or 'router'
    name            text        NOT NULL,
    asked           jsonb       NOT NULL,             -- selection, rules and limit, as they were typed
    since           double precision,                 -- what '2h' meant when it began: seconds since the epoch
    until           double precision,
    ends            jsonb       NOT NULL,             -- the DLQ's ends when it began: nothing beyond them is replayed
    positions       jsonb       NOT NULL,             -- everything before them is done
    published       bigint      NOT NULL DEFAULT 0,
    skipped         jsonb       NOT NULL DEFAULT '{}', -- how many, by verdict
    started_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    finished_at     timestamptz,
    PRIMARY KEY (owner, name)
);

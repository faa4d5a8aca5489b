-- The timeline: one row per provider call that was worth keeping (RINGONCE_ATTEMPTS). Written beside the history, not
-- with it: a crash may cost rows here, and nothing depends on them.
CREATE TABLE delivery_attempts (
    notification_id text             NOT NULL,
    attempted_at    timestamptz      NOT NULL,  -- when the call began, by the node's clock
    node            text             NOT NULL,
    channel         text             NOT NULL,
    root_id         text             NOT NULL,
    topic           text             NOT NULL,  -- the record that was worked on: its stage's topic, and where it lies
    partition       integer          NOT NULL,
    "offset"        bigint           NOT NULL,
    outcome         text             NOT NULL,  -- Delivered, Rejected, Gone, Throttled, Refused, NotSent, Indeterminate
    http_status     integer,
    duration        double precision NOT NULL,  -- seconds
    PRIMARY KEY (notification_id, attempted_at, node)
);

-- Attempts of replays are few: only they need to be found by their root.
CREATE INDEX delivery_attempts_replays ON delivery_attempts (root_id) WHERE root_id <> notification_id;

-- The history: one row per notification and channel, written once it has come to its end.
CREATE TABLE notifications_log (
    notification_id text        NOT NULL,
    channel         text        NOT NULL,             -- '' where a record never reached a channel
    user_id         text,
    status          text        NOT NULL CHECK (status IN ('delivered', 'dlq', 'expired', 'gone', 'dropped', 'unknown')),
    attempts        integer     NOT NULL DEFAULT 0,   -- provider calls, over all stages
    sent_by         text,                             -- the node that wrote the row
    last_error      text,
    sent_at         timestamptz,                      -- when the provider took it
    http_status     integer,
    stage           text,
    trace_id        text,
    event_key       text,
    root_id         text        NOT NULL,             -- the notification's own id; a replay shares its root's
    replay_of       text,
    maybe_reached   boolean     NOT NULL DEFAULT false, -- some attempt got no answer after it may have been sent
    created_at      timestamptz,
    expires_at      timestamptz,
    recorded_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (notification_id, channel)
);

-- Replays are few: only they need to be found by their root.
CREATE INDEX notifications_log_replays ON notifications_log (root_id) WHERE replay_of IS NOT NULL;

-- The gate: who is here has come to its end in this consumer, and is not worked on again.
CREATE TABLE processed_events (
    consumer        text        NOT NULL,             -- '<channel>-sender', '<channel>-dlq', 'router-dlq'
    notification_id text        NOT NULL,
    processed_at    timestamptz NOT NULL DEFAULT now(),
    owner           text        NOT NULL,
    PRIMARY KEY (consumer, notification_id)
);

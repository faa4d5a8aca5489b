-- How often each notification has been sent, where its channel promises a bound: counted before each call, by root, over
-- all stages, restarts and replays.
CREATE TABLE notification_attempts (
    consumer        text        NOT NULL,             -- '<channel>-sender'
    root_id         text        NOT NULL,
    attempts        integer     NOT NULL,
    counted_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer, root_id)
);

-- name: seen
SELECT notification_id FROM processed_events WHERE consumer = %(consumer)s AND notification_id = ANY(%(ids)s)

-- name: record
-- Both lists arrive as one JSON text each: for a batch this costs the client half of what arrays cost.
-- They come sorted, and rows are locked in the order of the list, so that two senders cannot deadlock.
WITH gate AS (
    INSERT INTO processed_events (consumer, notification_id, owner)
    SELECT %(consumer)s, id, %(owner)s FROM json_array_elements_text(%(gate_ids)s::json) AS id
    ON CONFLICT DO NOTHING
)
INSERT INTO notifications_log AS log (
    notification_id, channel, user_id, status, attempts, sent_by, last_error, sent_at, http_status, stage, trace_id,
    event_key, root_id, replay_of, maybe_reached, created_at, expires_at
)
SELECT
    notification_id, channel, user_id, status, attempts, %(owner)s, last_error, to_timestamp(sent_at), http_status,
    stage, trace_id, event_key, root_id, replay_of, maybe_reached, created_at, expires_at
FROM json_to_recordset(%(rows)s::json) AS incoming (
    notification_id text, channel text, user_id text, status text, attempts integer, last_error text,
    sent_at double precision, http_status integer, stage text, trace_id text, event_key text, root_id text,
    replay_of text, maybe_reached boolean, created_at timestamptz, expires_at timestamptz
)
ON CONFLICT (notification_id, channel) DO UPDATE SET
    user_id = excluded.user_id, status = excluded.status, attempts = excluded.attempts, sent_by = excluded.sent_by,
    last_error = excluded.last_error, sent_at = excluded.sent_at, http_status = excluded.http_status,
    stage = excluded.stage, trace_id = excluded.trace_id, event_key = excluded.event_key,
    root_id = excluded.root_id, replay_of = excluded.replay_of,
    maybe_reached = log.maybe_reached OR excluded.maybe_reached,
    created_at = excluded.created_at, expires_at = excluded.expires_at, recorded_at = excluded.recorded_at
WHERE (excluded.status = 'delivered' AND log.status <> 'delivered')
   OR (log.status = 'unknown' AND excluded.status <> 'unknown')

-- name: history
SELECT channel, status, count(*) AS rows FROM notifications_log GROUP BY channel, status ORDER BY channel, status

-- name: history_by_root
-- What has become of each notification, its replays counted with it: delivered if any of them was.
SELECT channel, status, count(*) AS rows
FROM (
    SELECT DISTINCT ON (root_id, channel) channel, status
    FROM notifications_log
    ORDER BY root_id, channel, status = 'delivered' DESC, recorded_at
) AS ended
GROUP BY channel, status
ORDER BY channel, status

-- name: truncate
TRUNCATE notifications_log, processed_events

-- name: schema_present
SELECT to_regclass('notifications_log') IS NOT NULL AND to_regclass('processed_events') IS NOT NULL

-- name: applied
SELECT name FROM schema_migrations

-- name: migrations_table
CREATE TABLE IF NOT EXISTS schema_migrations (name text PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())

-- name: migrations_lock
SELECT pg_advisory_xact_lock(7237283)

-- name: migrated
INSERT INTO schema_migrations (name) VALUES (%(name)s)

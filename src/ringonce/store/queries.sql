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
   OR (log.status = 'unknown' AND (excluded.status <> 'unknown' OR excluded.maybe_reached > log.maybe_reached))

-- name: claim
-- Gate row and history row at once: whoever finds the one finds the other. A claim whose answer was lost is found to be
-- one's own when it is repeated. A replay is not claimed once its root has come to its end.
WITH incoming AS (
    SELECT * FROM json_to_recordset(%(rows)s::json) AS incoming (
        notification_id text, owner text, user_id text, attempts integer, stage text, trace_id text,
        event_key text, root_id text, replay_of text, maybe_reached boolean, created_at timestamptz,
        expires_at timestamptz
    )
), claimed AS (
    INSERT INTO processed_events AS gate (consumer, notification_id, owner)
    SELECT %(consumer)s, notification_id, owner FROM incoming
    WHERE root_id = notification_id OR NOT EXISTS (
        SELECT FROM processed_events AS root WHERE root.consumer = %(consumer)s AND root.notification_id = root_id
    )
    ON CONFLICT (consumer, notification_id) DO UPDATE SET owner = excluded.owner WHERE gate.owner = excluded.owner
    RETURNING notification_id
), logged AS (
    INSERT INTO notifications_log (
        notification_id, channel, user_id, status, attempts, sent_by, stage, trace_id, event_key, root_id, replay_of,
        maybe_reached, created_at, expires_at
    )
    SELECT
        notification_id, %(channel)s, user_id, 'unknown', attempts, %(node)s, stage, trace_id, event_key, root_id,
        replay_of, maybe_reached, created_at, expires_at
    FROM incoming JOIN claimed USING (notification_id)
    ON CONFLICT DO NOTHING
)
SELECT notification_id FROM claimed

-- name: release
WITH held AS (
    SELECT gate.notification_id
    FROM processed_events AS gate
    JOIN json_to_recordset(%(rows)s::json) AS incoming (notification_id text, owner text)
      ON gate.notification_id = incoming.notification_id AND gate.owner = incoming.owner
    WHERE gate.consumer = %(consumer)s
    ORDER BY gate.notification_id
    FOR UPDATE OF gate
), forgotten AS (
    DELETE FROM notifications_log AS log USING held
    WHERE log.notification_id = held.notification_id AND log.channel = %(channel)s AND log.status = 'unknown'
)
DELETE FROM processed_events AS gate USING held
WHERE gate.consumer = %(consumer)s AND gate.notification_id = held.notification_id
RETURNING gate.notification_id

-- name: take_over
-- The lock is waited for: what is being released at this moment is not there afterwards, and not found.
WITH held AS (
    SELECT notification_id FROM processed_events
    WHERE consumer = %(consumer)s AND notification_id = ANY(%(ids)s)
    ORDER BY notification_id
    FOR UPDATE
), taken AS (
    UPDATE processed_events AS gate SET owner = %(owner)s
    FROM held JOIN notifications_log AS log USING (notification_id)
    WHERE gate.consumer = %(consumer)s AND gate.notification_id = held.notification_id
      AND log.channel = %(channel)s AND log.status = 'unknown'
)
SELECT notification_id FROM held

-- name: count_attempts
WITH incoming AS (
    SELECT * FROM json_to_recordset(%(rows)s::json) AS incoming (root_id text, most integer)
)
INSERT INTO notification_attempts AS counted (consumer, root_id, attempts)
SELECT %(consumer)s, root_id, 1 FROM incoming WHERE most > 0
ON CONFLICT (consumer, root_id) DO UPDATE SET attempts = counted.attempts + 1, counted_at = now()
WHERE counted.attempts < (SELECT most FROM incoming WHERE incoming.root_id = excluded.root_id)
RETURNING root_id

-- name: give_back_attempts
WITH held AS (
    SELECT root_id FROM notification_attempts
    WHERE consumer = %(consumer)s AND root_id = ANY(%(roots)s)
    ORDER BY root_id
    FOR UPDATE
)
UPDATE notification_attempts AS counted SET attempts = counted.attempts - 1
FROM held WHERE counted.consumer = %(consumer)s AND counted.root_id = held.root_id AND counted.attempts > 0
RETURNING counted.root_id

-- name: note
INSERT INTO delivery_attempts (
    notification_id, attempted_at, node, channel, root_id, topic, partition, "offset", outcome, http_status, duration
)
SELECT
    notification_id, to_timestamp(attempted_at), %(node)s, channel, root_id, topic, partition, "offset", outcome,
    http_status, duration
FROM json_to_recordset(%(attempts)s::json) AS incoming (
    notification_id text, attempted_at double precision, channel text, root_id text, topic text, partition integer,
    "offset" bigint, outcome text, http_status integer, duration double precision
)
ON CONFLICT DO NOTHING

-- name: ping
SELECT 1

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
TRUNCATE notifications_log, processed_events, delivery_attempts, notification_attempts, replays

-- name: schema_present
SELECT to_regclass('notifications_log') IS NOT NULL AND to_regclass('processed_events') IS NOT NULL
   AND to_regclass('delivery_attempts') IS NOT NULL AND to_regclass('replays') IS NOT NULL
   AND to_regclass('notification_attempts') IS NOT NULL

-- name: applied
SELECT name FROM schema_migrations

-- name: migrations_table
CREATE TABLE IF NOT EXISTS schema_migrations (name text PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())

-- name: migrations_lock
SELECT pg_advisory_xact_lock(7237283)

-- name: migrated
INSERT INTO schema_migrations (name) VALUES (%(name)s)

-- name: past
-- What has become of some roots in one channel, and the highest replay of each that has a row.
SELECT root_id, bool_or(status = 'delivered'), coalesce(max(replay), 0)
FROM (
    SELECT root_id, status, 0 AS replay
    FROM notifications_log WHERE notification_id = ANY(%(roots)s) AND channel = %(channel)s AND replay_of IS NULL
    UNION ALL
    SELECT root_id, status, substring(notification_id FROM '^replay-([0-9]{1,9})-')::integer
    FROM notifications_log WHERE root_id = ANY(%(roots)s) AND channel = %(channel)s AND replay_of IS NOT NULL
) AS ended
GROUP BY root_id

-- name: replay_patience
SELECT set_config('lock_timeout', '3s', false), set_config('statement_timeout', '30s', false)

-- name: replay_lock
-- Held until the connection ends, however the process does.
SELECT pg_advisory_lock(7237284, hashtext(%(replay)s))

-- name: replay_find
SELECT asked, since, until, ends, positions, published, skipped, finished_at IS NOT NULL
FROM replays WHERE owner = %(owner)s AND name = %(name)s

-- name: replay_begin
INSERT INTO replays (owner, name, asked, since, until, ends, positions)
VALUES (%(owner)s, %(name)s, %(asked)s, %(since)s, %(until)s, %(ends)s, %(positions)s)

-- name: replay_save
UPDATE replays
SET positions = %(positions)s, published = %(published)s, skipped = %(skipped)s, updated_at = now(),
    finished_at = CASE WHEN %(finished)s THEN now() END
WHERE owner = %(owner)s AND name = %(name)s

-- name: counts
SELECT channel, status, count(*) AS rows
FROM notifications_log
WHERE (%(channel)s::text IS NULL OR channel = %(channel)s)
  AND (%(status)s::text IS NULL OR status = %(status)s)
  AND (%(user)s::text IS NULL OR user_id = %(user)s)
  AND (%(event_key)s::text IS NULL OR event_key = %(event_key)s)
  AND (%(root)s::text IS NULL OR notification_id = %(root)s OR (root_id = %(root)s AND replay_of IS NOT NULL))
  AND (%(since)s::timestamptz IS NULL OR recorded_at >= %(since)s)
  AND (%(until)s::timestamptz IS NULL OR recorded_at < %(until)s)
GROUP BY channel, status
ORDER BY channel, status

-- name: rows
-- Newest first. No part of the payload is here; whose it was and what it was about are.
SELECT
    notification_id, channel, status, attempts, recorded_at, sent_at, sent_by, last_error, http_status, stage, user_id,
    event_key, trace_id, root_id, replay_of, maybe_reached, created_at, expires_at
FROM notifications_log
WHERE (%(channel)s::text IS NULL OR channel = %(channel)s)
  AND (%(status)s::text IS NULL OR status = %(status)s)
  AND (%(user)s::text IS NULL OR user_id = %(user)s)
  AND (%(event_key)s::text IS NULL OR event_key = %(event_key)s)
  AND (%(root)s::text IS NULL OR notification_id = %(root)s OR (root_id = %(root)s AND replay_of IS NOT NULL))
  AND (%(since)s::timestamptz IS NULL OR recorded_at >= %(since)s)
  AND (%(until)s::timestamptz IS NULL OR recorded_at < %(until)s)
ORDER BY recorded_at DESC, notification_id
LIMIT %(limit)s

-- name: attempts
-- Of a root and its replays; the conditions are those of the key and of the index.
SELECT
    notification_id, attempted_at, node, channel, topic, partition, "offset", outcome, http_status, duration
FROM delivery_attempts
WHERE notification_id = %(root)s OR (root_id = %(root)s AND root_id <> notification_id)
ORDER BY attempted_at

-- name: cutoff
SELECT now() - make_interval(secs => %(age)s)

-- name: prune_history_count
SELECT count(*) FROM notifications_log WHERE recorded_at < %(cutoff)s

-- name: prune_gate_count
SELECT count(*) FROM processed_events WHERE processed_at < %(cutoff)s

-- name: prune_attempts_count
SELECT count(*) FROM delivery_attempts WHERE attempted_at < %(cutoff)s

-- name: prune_history_pages
SELECT pg_relation_size('notifications_log') / current_setting('block_size')::bigint

-- name: prune_gate_pages
SELECT pg_relation_size('processed_events') / current_setting('block_size')::bigint

-- name: prune_counts_count
SELECT count(*) FROM notification_attempts WHERE counted_at < %(cutoff)s

-- name: prune_counts_pages
SELECT pg_relation_size('notification_attempts') / current_setting('block_size')::bigint

-- name: prune_counts
DELETE FROM notification_attempts WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM notification_attempts
    WHERE ctid >= %(first)s::tid AND ctid < %(end)s::tid AND counted_at < %(cutoff)s
    FOR UPDATE SKIP LOCKED
))

-- name: prune_attempts_pages
SELECT pg_relation_size('delivery_attempts') / current_setting('block_size')::bigint

-- name: prune_history
-- Page by page, so that a table is read once whatever its size; a row that somebody has locked stays for another time.
DELETE FROM notifications_log WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM notifications_log
    WHERE ctid >= %(first)s::tid AND ctid < %(end)s::tid AND recorded_at < %(cutoff)s
    FOR UPDATE SKIP LOCKED
))

-- name: prune_gate
DELETE FROM processed_events WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM processed_events
    WHERE ctid >= %(first)s::tid AND ctid < %(end)s::tid AND processed_at < %(cutoff)s
    FOR UPDATE SKIP LOCKED
))

-- name: prune_attempts
DELETE FROM delivery_attempts WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM delivery_attempts
    WHERE ctid >= %(first)s::tid AND ctid < %(end)s::tid AND attempted_at < %(cutoff)s
    FOR UPDATE SKIP LOCKED
))

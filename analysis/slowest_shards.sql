-- The tasks that took longest against the median of their stage and
-- iteration: the stragglers that everything else waited for.
WITH tasks AS (
    SELECT
        iteration, stage, shard,
        max(value) FILTER (name LIKE '%task_seconds') AS seconds,
        max(value) FILTER (name LIKE '%attempt')      AS attempt
    FROM read_parquet(getvariable('run') || '/iter/*/usage.parquet')
    WHERE stage <> 'warm' -- its checkpoints follow one another
    GROUP BY ALL
)
SELECT
    *,
    median(seconds) OVER (PARTITION BY iteration, stage)                  AS median_seconds,
    seconds - median(seconds) OVER (PARTITION BY iteration, stage)        AS lost_seconds
FROM tasks
ORDER BY lost_seconds DESC, seconds DESC, iteration, stage, shard
LIMIT 20;

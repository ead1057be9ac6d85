-- Tokens by stage, and how many a task handled in a second.
WITH numbers AS (
    SELECT iteration, stage, shard, regexp_replace(name, '^step-\d+/', '') AS name, sum(value) AS value
    FROM read_parquet([getvariable('run') || '/iter/*/metrics.parquet', getvariable('run') || '/iter/*/usage.parquet'])
    GROUP BY ALL
)
SELECT
    stage,
    sum(value) FILTER (name = 'prompt_tokens')   AS prompt_tokens,
    sum(value) FILTER (name = 'response_tokens') AS response_tokens,
    sum(value) FILTER (name = 'tokens')          AS learned_tokens,
    sum(value) FILTER (name = 'trained_tokens')  AS loss_tokens,
    sum(value) FILTER (name = 'task_seconds')    AS task_seconds,
    round(coalesce(response_tokens, learned_tokens) / nullif(task_seconds, 0)) AS tokens_per_second
FROM numbers
WHERE stage IN ('warm', 'rollout', 'gradient', 'learn')
GROUP BY stage
ORDER BY stage;

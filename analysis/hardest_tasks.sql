-- The problems that training tried most and solved least, and the last answer
-- to each. Steps on an earlier response count as the problem's own.
WITH responses AS (
    SELECT iteration, task_id, sample, outcome, extracted
    FROM read_parquet(getvariable('run') || '/iter/*/score/*.parquet')
    JOIN read_parquet(getvariable('run') || '/iter/*/plan.parquet') USING (instance_id)
    WHERE outcome IN ('ok', 'wrong', 'invalid', 'timeout') -- the policy's own
)
SELECT
    kind, level, task_id,
    count(*)                                     AS tries,
    count(*) FILTER (outcome = 'ok')             AS solved,
    max(iteration)                               AS last_iteration,
    any_value(question)                          AS question,
    any_value(answer)                            AS answer,
    arg_max(extracted, (iteration, sample))      AS last_answer
FROM responses
JOIN read_parquet(getvariable('run') || '/tasks.parquet') USING (task_id)
GROUP BY kind, level, task_id
ORDER BY tries - solved DESC, task_id
LIMIT 20;

-- Answers that are right after each self-improvement step and were wrong at first, less
-- those that are wrong and were right at first (ExIt, Figures 4 and 8), of each set and
-- evaluated policy version. Failures of ours are left out.
WITH answers AS (
    SELECT "set", policy_version, task_id, sample, step, outcome = 'ok' AS is_right
    FROM read_parquet(getvariable('run') || '/eval/*/*.parquet')
    WHERE sample >= 0 AND outcome IN ('ok', 'wrong', 'invalid', 'timeout')
)
SELECT
    "set", policy_version, answers.step,
    count(*) FILTER (answers.is_right AND NOT began.is_right)
        - count(*) FILTER (NOT answers.is_right AND began.is_right) AS net_corrections
FROM answers
JOIN answers AS began USING ("set", policy_version, task_id, sample)
WHERE began.step = 0
GROUP BY "set", policy_version, answers.step
ORDER BY "set" <> 'test', "set", policy_version, answers.step;

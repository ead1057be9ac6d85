-- Answers that are right after each revision and were wrong at first, less
-- those that are wrong and were right at first (ExIt Fig. 4 and 8), of each set and
-- evaluated policy version; and those with a better score than at first, less those with
-- a worse one. Failures of ours are left out.
WITH answers AS (
    SELECT "set", policy_version, task_id, sample, step, outcome = 'ok' AS is_right, score
    FROM read_parquet(getvariable('run') || '/eval/*/*.parquet')
    WHERE sample >= 0 AND outcome IN ('ok', 'wrong', 'invalid', 'timeout')
)
SELECT
    "set", policy_version, answers.step,
    count(*) FILTER (answers.is_right AND NOT began.is_right)
        - count(*) FILTER (NOT answers.is_right AND began.is_right) AS net_corrections,
    count(*) FILTER (answers.score > began.score) - count(*) FILTER (answers.score < began.score) AS net_improvements
FROM answers
JOIN answers AS began USING ("set", policy_version, task_id, sample)
WHERE began.step = 0
GROUP BY "set", policy_version, answers.step
ORDER BY "set" <> 'test', "set", policy_version, answers.step;

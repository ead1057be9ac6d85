-- Held-out programs of each evaluated policy version by task, in the task's own unit: the
-- best score of the grader, which no choice could see, and the mean of valid ones
-- (RL-MLE Tab. 1 and 7). The part "score" of a reward has its sign flipped where lower is better.
WITH programs AS (
    SELECT
        policy_version, task_id,
        unnest(list_append(
            [{'ok': t.outcome = 'ok', 'raw': t.raw_score, 'parts': t.reward_parts} FOR t IN earlier_turns],
            {'ok': outcome = 'ok', 'raw': raw_score, 'parts': reward_parts}
        )) AS p
    FROM read_parquet(getvariable('run') || '/eval/*/*.parquet')
    WHERE sample >= 0 AND outcome IN ('ok', 'wrong', 'invalid', 'timeout')
)
SELECT
    policy_version, task_id,
    count(*)                                                                            AS programs,
    count(*) FILTER (p.ok)                                                              AS valid,
    arg_max(p.raw, [r.value FOR r IN p.parts IF r.name = 'score'][1]) FILTER (p.ok)     AS best_score,
    avg(p.raw) FILTER (p.ok)                                                            AS mean_score
FROM programs
GROUP BY policy_version, task_id
ORDER BY policy_version, task_id;

-- Responses by iteration and by what they were asked for: to draft, to debug, to improve
-- (AceGRPO, Figure 5, left). The reward is the environment's; the last wave's verdict counts.
WITH verdicts AS (
    SELECT instance_id, sample, arg_max(outcome, filename) AS outcome, arg_max(normalized_score, filename) AS quality, arg_max(reward, filename) AS reward
    FROM (SELECT instance_id, sample, outcome, normalized_score, reward, filename FROM read_parquet(getvariable('run') || '/iter/*/**/score/*.parquet', filename = true))
    GROUP BY ALL
)
SELECT
    plan.iteration, plan.kind,
    count(*)                                        AS responses,
    round(avg((outcome = 'ok')::INT), 3)            AS ok,
    round(avg(quality), 3)                          AS quality,
    round(avg(verdicts.reward), 3)                  AS reward,
    round(avg(plan.depth), 2)                       AS depth
FROM verdicts
JOIN read_parquet(getvariable('run') || '/iter/*/plan.parquet') AS plan USING (instance_id)
WHERE outcome NOT IN ('infra', 'preempted')
GROUP BY ALL
ORDER BY ALL;

-- Responses by iteration and by what they were asked for, to draft, to debug, to improve:
-- valid or right ones in percent, and the mean reward (AceGRPO Fig. 5, left and middle). The reward is the environment's; the last wave's score counts.
WITH verdicts AS (
    SELECT instance_id, sample, arg_max(outcome, filename) AS outcome, arg_max(normalized_score, filename) AS quality, arg_max(reward, filename) AS reward
    FROM (SELECT instance_id, sample, outcome, normalized_score, reward, filename FROM read_parquet(getvariable('run') || '/iter/*/**/score/*.parquet', filename = true))
    GROUP BY ALL
)
SELECT
    plan.iteration, plan.kind,
    count(*)                                        AS responses,
    100 * avg((outcome = 'ok')::INT)                AS ok,
    avg(quality)                                    AS quality,
    avg(verdicts.reward)                            AS reward,
    avg(plan.depth)                                 AS depth
FROM verdicts
JOIN read_parquet(getvariable('run') || '/iter/*/plan.parquet') AS plan USING (instance_id)
WHERE outcome IN ('ok', 'wrong', 'invalid', 'timeout')
GROUP BY ALL
ORDER BY ALL;

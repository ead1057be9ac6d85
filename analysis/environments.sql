-- Training by iteration and environment: prompts of the plan, right responses and segments
-- with a gradient in percent, and the mean reward. The reward is the environment's; the
-- last wave's score counts.
WITH plan AS (
    SELECT instance_id, env, iteration FROM read_parquet(getvariable('run') || '/iter/*/plan.parquet')
), verdicts AS (
    SELECT instance_id, sample, arg_max(outcome, filename) AS outcome, arg_max(reward, filename) AS reward
    FROM (SELECT instance_id, sample, outcome, reward, filename FROM read_parquet(getvariable('run') || '/iter/*/**/score/*.parquet', filename = true))
    GROUP BY ALL
), scored AS (
    SELECT env, iteration, 100 * avg((outcome = 'ok')::INT) AS ok, avg(reward) AS reward
    FROM verdicts JOIN plan USING (instance_id)
    WHERE outcome IN ('ok', 'wrong', 'invalid', 'timeout')
    GROUP BY ALL
), learned AS (
    SELECT env, iteration_sampled AS iteration, 100 * avg((fate = 'trained')::INT) AS trained
    FROM read_parquet(getvariable('run') || '/iter/*/ledger.parquet') JOIN plan USING (instance_id)
    GROUP BY ALL
)
SELECT env AS environment, iteration, prompts, ok, reward, trained
FROM (SELECT env, iteration, count(*) AS prompts FROM plan GROUP BY ALL)
LEFT JOIN scored USING (env, iteration)
LEFT JOIN learned USING (env, iteration)
ORDER BY ALL;

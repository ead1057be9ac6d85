-- Mean reward of first answers in training by iteration, of each task, or of each kind of
-- task where a run trains on more than twelve (ExIt Fig. 1).
WITH verdicts AS (
    SELECT instance_id, sample, arg_max(outcome, filename) AS outcome, arg_max(reward, filename) AS reward
    FROM (SELECT instance_id, sample, outcome, reward, filename FROM read_parquet(getvariable('run') || '/iter/*/**/score/*.parquet', filename = true))
    GROUP BY ALL
), tasks AS (
    SELECT task_id, CASE WHEN count(*) OVER () <= 12 THEN task_id ELSE kind END AS task
    FROM read_parquet(getvariable('run') || '/tasks.parquet')
    WHERE split = 'train'
)
SELECT tasks.task, plan.iteration, count(*) AS answers, avg(verdicts.reward) AS reward
FROM verdicts
JOIN read_parquet(getvariable('run') || '/iter/*/plan.parquet') AS plan USING (instance_id)
JOIN tasks USING (task_id)
WHERE plan.kind = 'initial' AND outcome IN ('ok', 'wrong', 'invalid', 'timeout')
GROUP BY tasks.task, plan.iteration
ORDER BY tasks.task, plan.iteration;

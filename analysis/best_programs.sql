-- The best score of the grader so far in training, in each task's own unit ("Reinforcement
-- Learning for Machine Learning Engineering Agents", Figure 7). The part "score" of a
-- reward has its sign flipped where lower is better.
WITH traces AS (
    SELECT instance_id, sample, arg_max(turns, filename) AS turns
    FROM (SELECT instance_id, sample, turns, filename FROM read_parquet(getvariable('run') || '/iter/*/**/score/*.parquet', filename = true))
    GROUP BY ALL
), programs AS (
    SELECT plan.iteration, plan.task_id, unnest(turns) AS turn
    FROM traces
    JOIN read_parquet(getvariable('run') || '/iter/*/plan.parquet') AS plan USING (instance_id)
), scores AS (
    SELECT iteration, task_id, turn.raw_score AS raw, [p.value FOR p IN turn.reward_parts IF p.name = 'score'][1] AS score
    FROM programs
    WHERE turn.outcome = 'ok'
), iterations AS (
    SELECT iteration, task_id, max(score) AS score, arg_max(raw, score) AS raw FROM scores GROUP BY ALL
)
SELECT
    task_id, iteration,
    arg_max(raw, score) OVER (PARTITION BY task_id ORDER BY iteration) AS best_score
FROM iterations
ORDER BY ALL;

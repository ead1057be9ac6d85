-- Sampled instances by iteration: the self-iterations before them, the messages of the
-- policy in their history, the level of their tasks (ExIt Fig. 6), and of those that go
-- on from an earlier response the iterations since that and the depth (ExIt Fig. 5, left).
WITH plans AS (
    SELECT iteration, instance_id, task_id, parent_id, depth, turn
    FROM read_parquet(getvariable('run') || '/iter/*/plan.parquet')
)
SELECT
    plans.iteration,
    count(*)                                                        AS instances,
    avg(plans.depth)                                                AS depth,
    avg(plans.turn)                                                 AS start_turn,
    avg(level)                                                      AS level,
    avg(plans.iteration - parents.iteration) FILTER (plans.turn > 0) AS recency,
    avg(plans.depth) FILTER (plans.turn > 0 AND parents.iteration IS NOT NULL) AS starting_depth
FROM plans
-- An entry of the curriculum is named by the instance whose response it goes on from.
LEFT JOIN plans AS parents ON parents.instance_id = split_part(plans.parent_id, '/', 1)
LEFT JOIN read_parquet(getvariable('run') || '/tasks.parquet') AS tasks ON tasks.task_id = plans.task_id
GROUP BY plans.iteration
ORDER BY plans.iteration;

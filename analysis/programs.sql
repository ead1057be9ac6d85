-- Programs by iteration, of all tasks and of each: how many were valid submissions, in
-- percent, what these scored, the mean score with what is not valid as -10, and how long
-- programs ran (RL-MLE Fig. 8 to 10). A turn is a program. A later wave has the whole trace, and takes the place of an
-- earlier one.
WITH traces AS (
    SELECT instance_id, sample, arg_max(outcome, filename) AS outcome, arg_max(turns, filename) AS turns
    FROM (SELECT instance_id, sample, outcome, turns, filename FROM read_parquet(getvariable('run') || '/iter/*/**/score/*.parquet', filename = true))
    GROUP BY ALL
), programs AS (
    SELECT plan.iteration, plan.task_id, unnest(turns) AS turn
    FROM traces
    JOIN read_parquet(getvariable('run') || '/iter/*/plan.parquet') AS plan USING (instance_id)
    WHERE outcome IN ('ok', 'wrong', 'invalid', 'timeout')
)
SELECT
    CASE WHEN grouping(task_id) = 0 THEN 'task' ELSE 'all' END                              AS "by",
    coalesce(task_id, '')                                                                   AS "of",
    iteration,
    count(*)                                                                                AS programs,
    100 * avg((turn.outcome = 'ok')::INT)                                                   AS valid,
    avg(turn.normalized_score) FILTER (turn.outcome = 'ok')                                 AS quality_of_valid,
    avg(CASE WHEN turn.outcome = 'ok' THEN [p.value FOR p IN turn.reward_parts IF p.name = 'score'][1] ELSE -10 END) AS score_or_minus_10,
    avg(turn.execute_seconds)                                                               AS execute_seconds,
    avg(turn.execute_seconds) FILTER (turn.outcome = 'ok')                                  AS execute_seconds_of_valid
FROM programs
WHERE turn.outcome IN ('ok', 'wrong', 'invalid', 'timeout')
GROUP BY GROUPING SETS ((iteration), (iteration, task_id))
ORDER BY ALL;

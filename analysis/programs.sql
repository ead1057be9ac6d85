-- Programs by iteration: how many were valid submissions, what these scored, the mean
-- score with what is not valid as -10, and how long programs ran ("Reinforcement Learning
-- for Machine Learning Engineering Agents", Figures 8 to 10). A turn is a program. A
-- later wave has the whole trace, and takes the place of an earlier one.
WITH traces AS (
    SELECT regexp_extract(filename, '/iter/(\d+)/', 1)::INT AS iteration, instance_id, sample, arg_max(turns, filename) AS turns
    FROM (SELECT instance_id, sample, turns, filename FROM read_parquet(getvariable('run') || '/iter/*/**/score/*.parquet', filename = true))
    GROUP BY ALL
), programs AS (
    SELECT iteration, unnest(turns) AS turn FROM traces
)
SELECT
    iteration,
    count(*)                                                                                    AS programs,
    round(avg((turn.outcome = 'ok')::INT), 3)                                                   AS valid,
    round(avg(turn.normalized_score) FILTER (turn.outcome = 'ok'), 3)                           AS quality_of_valid,
    round(avg(CASE WHEN turn.outcome = 'ok' THEN list_filter(turn.reward_parts, lambda p: p.name = 'score')[1].value ELSE -10 END), 3) AS score_or_minus_10,
    round(avg(turn.execute_seconds), 2)                                                         AS execute_seconds,
    round(avg(turn.execute_seconds) FILTER (turn.outcome = 'ok'), 2)                            AS execute_seconds_of_valid
FROM programs
WHERE turn.outcome NOT IN ('infra', 'preempted')
GROUP BY iteration
ORDER BY iteration;

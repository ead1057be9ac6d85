-- The best score of the grader among programs of training, of each task in its own unit:
-- among its first programs and its last ones, 128 or half of them where there are fewer
-- than 256 (RL-MLE Tab. 1);
-- among the last, of those from scratch and of those that improve an earlier one (RL-MLE Tab. 4);
-- and among the last 8, 64, 128 and 256 (RL-MLE Tab. 6). The part "score" of a reward has its
-- sign flipped where lower is better. A later wave has the whole trace, and takes the place
-- of an earlier one.
WITH traces AS (
    SELECT instance_id, sample, arg_max(outcome, filename) AS outcome, arg_max(turns, filename) AS turns
    FROM (SELECT instance_id, sample, outcome, turns, filename FROM read_parquet(getvariable('run') || '/iter/*/**/score/*.parquet', filename = true))
    GROUP BY ALL
), turns AS (
    SELECT plan.iteration, plan.task_id, plan.kind, instance_id, sample, unnest(turns) AS turn, generate_subscripts(turns, 1) AS place
    FROM traces
    JOIN read_parquet(getvariable('run') || '/iter/*/plan.parquet') AS plan USING (instance_id)
    WHERE outcome IN ('ok', 'wrong', 'invalid', 'timeout')
), programs AS (
    SELECT
        task_id, kind, turn.outcome = 'ok' AS ok, turn.raw_score AS raw, [p.value FOR p IN turn.reward_parts IF p.name = 'score'][1] AS score,
        row_number() OVER (PARTITION BY task_id ORDER BY iteration, instance_id, sample, place) AS number,
        count(*) OVER (PARTITION BY task_id) AS programs,
        least(128, greatest(1, programs // 2)) AS programs_each
    FROM turns
    WHERE turn.outcome IN ('ok', 'wrong', 'invalid', 'timeout')
)
SELECT
    task_id, programs, programs_each,
    arg_max(raw, score) FILTER (ok AND number <= programs_each)                                     AS first_programs,
    arg_max(raw, score) FILTER (ok AND number > programs - programs_each)                           AS last_programs,
    arg_max(raw, score) FILTER (ok AND number > programs - programs_each AND kind = 'initial')      AS from_scratch,
    arg_max(raw, score) FILTER (ok AND number > programs - programs_each AND kind <> 'initial')     AS improve_previous,
    arg_max(raw, score) FILTER (ok AND programs >= 8 AND number > programs - 8)                     AS last_8,
    arg_max(raw, score) FILTER (ok AND programs >= 64 AND number > programs - 64)                   AS last_64,
    arg_max(raw, score) FILTER (ok AND programs >= 128 AND number > programs - 128)                 AS last_128,
    arg_max(raw, score) FILTER (ok AND programs >= 256 AND number > programs - 256)                 AS last_256
FROM programs
GROUP BY task_id, programs, programs_each
ORDER BY task_id;

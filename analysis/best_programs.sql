-- The best score of the grader so far in training, in each task's own unit, by iteration
-- and by the seconds in which a task of training had worked when the iteration's last
-- score was there (RL-MLE Fig. 7). The part "score" of a reward has its sign flipped where lower is better.
WITH traces AS (
    SELECT instance_id, sample, arg_max(outcome, filename) AS outcome, arg_max(turns, filename) AS turns
    FROM (SELECT instance_id, sample, outcome, turns, filename FROM read_parquet(getvariable('run') || '/iter/*/**/score/*.parquet', filename = true))
    GROUP BY ALL
), plans AS (
    SELECT iteration, instance_id, task_id FROM read_parquet(getvariable('run') || '/iter/*/plan.parquet')
), programs AS (
    SELECT iteration, task_id, unnest(turns) AS turn
    FROM traces
    JOIN plans USING (instance_id)
    WHERE outcome IN ('ok', 'wrong', 'invalid', 'timeout')
), scores AS (
    SELECT iteration, task_id, turn.raw_score AS raw, [p.value FOR p IN turn.reward_parts IF p.name = 'score'][1] AS score
    FROM programs
    WHERE turn.outcome = 'ok'
), manifests AS (
    SELECT stage, iteration, epoch_ns(started::TIMESTAMP_NS) AS started, epoch_ns(ended::TIMESTAMP_NS) AS ended
    FROM read_json(
        [getvariable('run') || '/iter/*/**/*.json', getvariable('run') || '/policy/*.json'],
        columns = {stage: 'VARCHAR', iteration: 'INT', started: 'VARCHAR', ended: 'VARCHAR'}, filename = true
    )
    WHERE NOT ends_with(filename, '.delta.json') -- of pruning
        AND iteration > 0 AND stage IN ('rollout', 'score', 'buffer', 'gradient', 'reduce', 'learn')
), work AS ( -- that no manifest before it has
    SELECT greatest(started, max(ended) OVER (ORDER BY started, ended ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS started, ended
    FROM manifests
), judged AS (
    SELECT iteration, max(max(ended)) OVER (ORDER BY iteration) AS ended FROM manifests WHERE stage = 'score' GROUP BY iteration
), iterations AS (
    SELECT judged.iteration, sum(greatest(0, least(work.ended, judged.ended) - work.started)) / 1e9 AS seconds
    FROM judged
    CROSS JOIN work
    GROUP BY judged.iteration
), best AS (
    SELECT tasks.task_id, iterations.iteration, iterations.seconds, arg_max(scores.raw, scores.score) AS best_score
    FROM iterations
    CROSS JOIN (SELECT DISTINCT task_id FROM plans) AS tasks
    JOIN scores ON scores.task_id = tasks.task_id AND scores.iteration <= iterations.iteration
    GROUP BY ALL
)
SELECT * FROM best ORDER BY task_id, iteration;

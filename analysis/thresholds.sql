-- Valid submissions of training, in percent: those that are not above the median of their
-- board, those that win no medal, and, of later ones of a trace, those that do not gain more
-- than 0.01 in quality on its first (MLE-RL Fig. 3).
WITH traces AS (
    SELECT instance_id, sample, arg_max(outcome, filename) AS outcome, arg_max(turns, filename) AS turns
    FROM (SELECT instance_id, sample, outcome, turns, filename FROM read_parquet(getvariable('run') || '/iter/*/**/score/*.parquet', filename = true))
    GROUP BY ALL
), submissions AS (
    SELECT [t FOR t IN turns IF t.outcome = 'ok'] AS valid FROM traces WHERE outcome IN ('ok', 'wrong', 'invalid', 'timeout')
), numbered AS (
    SELECT valid[1].normalized_score AS first, unnest(valid) AS turn, generate_subscripts(valid, 1) AS number FROM submissions
)
SELECT
    count(*)                                                                                            AS submissions,
    100 * avg(1 - coalesce([p.value FOR p IN turn.reward_parts IF p.name = 'above_median'][1], 0))      AS not_above_median,
    100 * avg((coalesce([p.value FOR p IN turn.reward_parts IF p.name = 'medal'][1], 0) <= 0)::INT)     AS no_medal,
    100 * avg((turn.normalized_score - first <= 0.01)::INT) FILTER (number > 1)                         AS gain_at_most_0_01
FROM numbered
HAVING submissions > 0;

-- Valid submissions of training by the gain in quality on the first valid one of their
-- trace, in steps of ten points, in percent (MLE-RL Fig. 3 (b)). A first one has none.
WITH traces AS (
    SELECT instance_id, sample, arg_max(outcome, filename) AS outcome, arg_max(turns, filename) AS turns
    FROM (SELECT instance_id, sample, outcome, turns, filename FROM read_parquet(getvariable('run') || '/iter/*/**/score/*.parquet', filename = true))
    GROUP BY ALL
), submissions AS (
    SELECT [t.normalized_score FOR t IN turns IF t.outcome = 'ok'] AS quality FROM traces WHERE outcome IN ('ok', 'wrong', 'invalid', 'timeout')
), gains AS (
    SELECT unnest([q - quality[1] FOR q IN quality[2:]]) AS gain FROM submissions
)
SELECT
    10 * step - 100                 AS from_points,
    100 * count(gain) / gained      AS submissions
FROM range(20) AS steps(step)
CROSS JOIN (SELECT count(*) AS gained FROM gains)
LEFT JOIN gains ON least(19, greatest(0, floor((gain + 1) / 0.1 + 1e-9))) = step
WHERE gained > 0
GROUP BY step, gained
ORDER BY step;

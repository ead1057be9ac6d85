-- What became of the first answer of each trace of several turns, in percent: f2s failed
-- at first and succeeded in the end, and so on (FlipTS Fig. 3). Traces that failed for
-- a reason of ours are left out. A later wave has the whole trace, and takes the place of
-- an earlier one.
WITH traces AS (
    SELECT
        regexp_extract(filename, '/iter/(\d+)/', 1)::INT AS iteration, instance_id, sample,
        arg_max(turns, filename) AS turns, arg_max(outcome, filename) AS outcome
    FROM (
        SELECT instance_id, sample, turns, outcome, filename FROM read_parquet(getvariable('run') || '/iter/*/**/score/*.parquet', filename = true)
    )
    GROUP BY ALL
)
SELECT
    iteration,
    count(*)                                                                          AS traces,
    100 * avg((turns[1].outcome <> 'ok' AND turns[-1].outcome = 'ok')::INT)           AS f2s,
    100 * avg((turns[1].outcome = 'ok' AND turns[-1].outcome = 'ok')::INT)            AS s2s,
    100 * avg((turns[1].outcome = 'ok' AND turns[-1].outcome <> 'ok')::INT)           AS s2f,
    100 * avg((turns[1].outcome <> 'ok' AND turns[-1].outcome <> 'ok')::INT)          AS f2f
FROM traces
WHERE outcome IN ('ok', 'wrong', 'invalid', 'timeout') AND len(turns) > 1
GROUP BY iteration
ORDER BY iteration;

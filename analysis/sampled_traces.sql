-- The traces that were sampled in training, but for those that failed for a reason of
-- ours (FlipTS Tab. 1). A later wave has the whole trace, and takes the place of an
-- earlier one.
WITH traces AS (
    SELECT instance_id, sample, arg_max(outcome, filename) AS outcome
    FROM (SELECT instance_id, sample, outcome, filename FROM read_parquet(getvariable('run') || '/iter/*/**/score/*.parquet', filename = true))
    GROUP BY ALL
)
SELECT count(*) AS traces FROM traces WHERE outcome IN ('ok', 'wrong', 'invalid', 'timeout');

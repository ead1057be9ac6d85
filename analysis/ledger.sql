-- What became of the sampled responses, by environment and the iteration that decided it.
-- A response that was sampled in an earlier iteration was late.
WITH plan AS (
    SELECT instance_id, env AS environment FROM read_parquet(getvariable('run') || '/iter/*/plan.parquet')
)
SELECT
    environment,
    iteration,
    count(*) FILTER (fate = 'trained')                        AS trained,
    count(*) FILTER (fate = 'dropped')                        AS dropped,
    count(*) FILTER (fate = 'masked')                         AS masked,
    count(*) FILTER (iteration_sampled < iteration)           AS late,
    histogram(reason) FILTER (fate <> 'trained')              AS reasons
FROM read_parquet(getvariable('run') || '/iter/*/ledger.parquet') LEFT JOIN plan USING (instance_id)
GROUP BY ALL
ORDER BY ALL;

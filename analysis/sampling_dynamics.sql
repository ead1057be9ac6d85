-- Shares of the traces that each iteration decided on, in percent: failures at first that
-- became successes, those of them with an advantage other than 0, final successes, and an
-- advantage other than 0 (FlipTS Fig. 6); and the mean reward of all that it decided on
-- (AceGRPO Fig. 5, right). From the manifests of the buffer stage.
WITH folded AS (
    SELECT iteration, metrics AS m
    FROM read_json(getvariable('run') || '/iter/*/batch.arrow.json', columns = {iteration: 'INT', metrics: 'MAP(VARCHAR, DOUBLE)'})
), counts AS (
    SELECT
        iteration,
        coalesce(map_extract(m, 'outcome_ok')[1], 0) AS ok,
        ok + coalesce(map_extract(m, 'outcome_wrong')[1], 0) + coalesce(map_extract(m, 'outcome_invalid')[1], 0)
            + coalesce(map_extract(m, 'outcome_timeout')[1], 0) AS traces,
        coalesce(map_extract(m, 'transition_f2s')[1], 0) AS f2s,
        coalesce(map_extract(m, 'effective_f2s')[1], 0) AS effective,
        coalesce(map_extract(m, 'nonzero_advantage')[1], 0) AS nonzero,
        map_extract(m, 'reward_mean')[1] AS reward
    FROM folded
)
SELECT
    iteration,
    100 * f2s / nullif(traces, 0)       AS f2s,
    100 * effective / nullif(traces, 0) AS effective_f2s,
    100 * ok / nullif(traces, 0)        AS final_success,
    100 * nonzero / nullif(traces, 0)   AS nonzero_advantage,
    reward
FROM counts
ORDER BY iteration;

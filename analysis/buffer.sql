-- What the curriculum's buffer holds after each iteration, by kind: how many states, how
-- many of them have been sampled, their potentials and depth.
SELECT
    regexp_extract(filename, '/iter/(\d+)/', 1)::INT    AS iteration,
    kind,
    count(*)                                            AS states,
    sum((visits > 0)::INT)                              AS sampled,
    round(avg(potential), 3)                            AS potential_mean,
    round(quantile_cont(potential, 0.9), 3)             AS potential_p90,
    round(avg(base_score), 3)                           AS base_score,
    round(avg(depth), 2)                                AS depth
FROM read_parquet(getvariable('run') || '/iter/*/state.parquet', filename = true)
GROUP BY ALL
ORDER BY ALL;

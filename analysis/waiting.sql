-- The segments that wait for a batch after each iteration (schedule.batch_segments;
-- MLE-RL, section 4.1: the data pool), and how old they are, in iterations.
SELECT
    regexp_extract(filename, '/iter/(\d+)/', 1)::INT    AS iteration,
    count(*)                                            AS segments,
    count(*) FILTER (masked = '')                       AS with_gradient,
    round(avg(iteration - iteration_sampled), 2)        AS age_mean,
    max(iteration - iteration_sampled)                  AS age_max,
    round(avg(reward), 4)                               AS reward
FROM read_parquet(getvariable('run') || '/iter/*/waiting.parquet', filename = true)
GROUP BY ALL
ORDER BY ALL;

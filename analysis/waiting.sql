-- The segments that wait for a batch after each iteration (schedule.batch_segments;
-- MLE-RL §4.1: the data pool), and how old they are, in iterations. A run
-- without schedule.batch_segments has no such files, and no row here.
SET VARIABLE waiting = coalesce((SELECT list(file) FROM glob(getvariable('run') || '/iter/*/waiting.parquet')), []);
SELECT
    regexp_extract(filename, '/iter/(\d+)/', 1)::INT    AS iteration,
    count(*)                                            AS segments,
    count(*) FILTER (masked = '')                       AS with_gradient,
    round(avg(iteration - iteration_sampled), 2)        AS age_mean,
    max(iteration - iteration_sampled)                  AS age_max,
    round(avg(reward), 4)                               AS reward
FROM query(if(len(getvariable('waiting')) > 0,
    'SELECT * FROM read_parquet(getvariable(''waiting''), filename = true)',
    'SELECT NULL::VARCHAR AS filename, NULL::VARCHAR AS masked, NULL::BIGINT AS iteration_sampled, NULL::DOUBLE AS reward WHERE false'))
GROUP BY ALL
ORDER BY ALL;

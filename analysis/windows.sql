-- The running-mean windows of each task after each iteration, of traces from scratch and
-- of those from an earlier solution (MLE-RL §4.1), and the tasks' thresholds.
SELECT
    regexp_extract(filename, '/iter/(\d+)/', 1)::INT    AS iteration,
    key                                                 AS task,
    scope, name,
    count(*)                                            AS scores,
    round(avg(value), 4)                                AS mean,
    round(stddev_pop(value), 4)                         AS deviation
FROM read_parquet(getvariable('run') || '/iter/*/stats.parquet', filename = true)
WHERE axis = 'reward'
GROUP BY ALL
ORDER BY ALL;

-- Valid submissions of traces by their number in the trace: their quality, how much they
-- gain on the trace's first one, and the share that gains more than 0.01, of traces from
-- scratch and of those from an earlier solution.
WITH traces AS (
    SELECT instance_id, sample, arg_max(turns, filename) AS turns
    FROM (SELECT instance_id, sample, turns, filename FROM read_parquet(getvariable('run') || '/iter/*/**/score/*.parquet', filename = true))
    GROUP BY ALL
), submissions AS (
    SELECT instance_id, sample, list_transform(list_filter(turns, lambda t: t.outcome = 'ok'), lambda t: t.normalized_score) AS quality FROM traces
), steps AS (
    SELECT instance_id, quality[1] AS first, unnest(quality) AS own, generate_subscripts(quality, 1) AS submission FROM submissions
)
SELECT
    CASE WHEN plan.kind = 'initial' THEN 'scratch' ELSE 'solution' END AS begins_from,
    submission,
    count(*)                                                        AS submissions,
    round(avg(own), 4)                                              AS quality,
    round(avg(own - first), 4)                                      AS gain,
    round(avg((own - first > 0.01)::INT), 3)                        AS share_above_0_01
FROM steps
JOIN read_parquet(getvariable('run') || '/iter/*/plan.parquet') AS plan USING (instance_id)
GROUP BY ALL
ORDER BY ALL;

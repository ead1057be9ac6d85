-- The share of segments that a run learned from where supervision on a pool was all of its
-- training: of the segments of the runs that the pool is of, as the pool's manifest says, in
-- percent (MLE-RL Tab. 4). selection.sql has that of runs with iterations.
SET VARIABLE pool = (
    SELECT coalesce(pool.path || '.json', getvariable('run') || '/run.json')
    FROM read_json(getvariable('run') || '/run.json', columns = {pool: 'STRUCT(path VARCHAR)'})
);
SELECT sum(r.segments) AS segments, 100 * sum(r.kept) / sum(r.segments) AS data
FROM (
    SELECT unnest(notes.runs) AS r
    FROM read_json(getvariable('pool'), columns = {notes: 'STRUCT(runs STRUCT(segments BIGINT, kept BIGINT)[])'})
)
HAVING segments > 0;

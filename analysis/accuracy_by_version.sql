-- Held-out accuracy in percent of each evaluated policy version after the last turn, the
-- mean over benchmarks (at the last turn that all of them have), with what the run's recipe sets:
-- the target probability of an F2S and the size of the candidate pool. A run is a line of
-- FlipTS Fig. 8 and 9; it has both settings where its questions are sampled by F2S.
WITH evaluation AS (
    SELECT regexp_extract(content, '\nevaluation:\n((?:  [^\n]*\n)+)', 1) AS settings FROM read_text(getvariable('run') || '/recipe.yaml')
), roles AS (
    SELECT 'test' AS "set", regexp_extract(settings, '^  role: (\S+)', 1) AS role FROM evaluation
    UNION ALL
    SELECT unnest(regexp_extract_all(settings, '- name: (\S+)\n      role: (\S+)', 1)), unnest(regexp_extract_all(settings, '- name: (\S+)\n      role: (\S+)', 2)) FROM evaluation
), others AS ( -- sets that are no benchmarks, unless none is one
    SELECT "set" FROM roles
    WHERE role NOT IN ('', 'benchmark') AND EXISTS (SELECT 1 FROM roles WHERE role IN ('', 'benchmark'))
), recipe AS (
    SELECT regexp_extract(content, '(?s)\ncurriculum:\n  name: flipts\n.*?\n  flipts:\n((    [^\n]*\n)+)', 1) AS flipts
    FROM read_text(getvariable('run') || '/recipe.yaml')
), answers AS (
    SELECT
        "set", policy_version, step, max(step) OVER (PARTITION BY "set") AS last,
        avg(score) FILTER (outcome IN ('ok', 'wrong', 'invalid', 'timeout')) AS accuracy -- null where no prompt left room
    FROM read_parquet(getvariable('run') || '/eval/*/*.parquet')
    WHERE sample >= 0 AND "set" NOT IN (SELECT "set" FROM others)
    GROUP BY "set", policy_version, step
)
SELECT
    policy_version,
    CASE WHEN count(accuracy) = count(*) THEN 100 * avg(accuracy) END                           AS accuracy,
    (SELECT TRY_CAST(regexp_extract(flipts, '    target: (\S+)', 1) AS DOUBLE) FROM recipe)     AS target,
    (SELECT TRY_CAST(regexp_extract(flipts, '    pool_size: (\S+)', 1) AS DOUBLE) FROM recipe)  AS pool_size
FROM answers
WHERE step = (SELECT min(last) FROM answers)
GROUP BY policy_version
ORDER BY policy_version;

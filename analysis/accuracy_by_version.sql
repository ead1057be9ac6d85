-- Held-out accuracy in percent of each evaluated policy version after the last turn, the
-- mean over sets (at the last turn that all sets have), with what the run's recipe sets:
-- the target probability of an F2S and the size of the candidate pool. A run is a line of
-- FlipTS Fig. 8 and 9; it has both settings where its questions are sampled by F2S.
WITH recipe AS (
    SELECT regexp_extract(content, '(?s)\ncurriculum:\n  name: flipts\n.*?\n  flipts:\n((    [^\n]*\n)+)', 1) AS flipts
    FROM read_text(getvariable('run') || '/recipe.yaml')
), answers AS (
    SELECT
        "set", policy_version, step, max(step) OVER (PARTITION BY "set") AS last,
        avg(score) FILTER (outcome IN ('ok', 'wrong', 'invalid', 'timeout')) AS accuracy -- null where no prompt left room
    FROM read_parquet(getvariable('run') || '/eval/*/*.parquet')
    WHERE sample >= 0
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

-- Held-out accuracy in percent of first answers by kind of problem, of each evaluated
-- policy version (FlipTS Fig. 7). A problem of several kinds counts for each.
WITH answers AS (
    SELECT policy_version, unnest(string_split(kind, ' + ')) AS kind, score
    FROM read_parquet(getvariable('run') || '/eval/*/*.parquet')
    WHERE sample >= 0 AND step = 0 AND outcome IN ('ok', 'wrong', 'invalid', 'timeout')
)
SELECT policy_version, kind, count(*) AS answers, 100 * avg(score) AS accuracy
FROM answers
GROUP BY policy_version, kind
ORDER BY policy_version, kind;

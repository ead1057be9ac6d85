-- Held-out accuracy in percent of first answers by kind of problem, of each evaluated
-- policy version (FlipTS, Figure 7).
SELECT policy_version, kind, count(*) AS answers, 100 * avg(score) AS accuracy
FROM read_parquet(getvariable('run') || '/eval/*/*.parquet')
WHERE sample >= 0 AND step = 0 AND outcome IN ('ok', 'wrong', 'invalid', 'timeout')
GROUP BY policy_version, kind
ORDER BY policy_version, kind;

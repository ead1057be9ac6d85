-- The policy version with the highest mean accuracy after the last turn of the sets whose
-- role is validation (the earliest of equals), in percent, and its accuracy on the
-- benchmarks after the last turn that all of them have. No other set has a say in the
-- choice; without a set of that role there is no row.
WITH evaluation AS (
    SELECT regexp_extract(content, '\nevaluation:\n((?:  [^\n]*\n)+)', 1) AS settings FROM read_text(getvariable('run') || '/recipe.yaml')
), roles AS (
    SELECT 'test' AS "set", regexp_extract(settings, '^  role: (\S+)', 1) AS role FROM evaluation
    UNION ALL
    SELECT unnest(regexp_extract_all(settings, '- name: (\S+)\n      role: (\S+)', 1)), unnest(regexp_extract_all(settings, '- name: (\S+)\n      role: (\S+)', 2)) FROM evaluation
), others AS ( -- sets that are no benchmarks, unless none is one
    SELECT "set" FROM roles
    WHERE role NOT IN ('', 'benchmark') AND EXISTS (SELECT 1 FROM roles WHERE role IN ('', 'benchmark'))
), answers AS (
    SELECT
        "set", policy_version, step, max(step) OVER (PARTITION BY "set") AS last,
        100 * avg(score) FILTER (outcome IN ('ok', 'wrong', 'invalid', 'timeout')) AS accuracy
    FROM read_parquet(getvariable('run') || '/eval/*/*.parquet')
    WHERE sample >= 0
    GROUP BY "set", policy_version, step
), validation AS (
    SELECT policy_version, avg(accuracy) AS validation
    FROM answers
    WHERE step = last AND "set" IN (SELECT "set" FROM roles WHERE role = 'validation')
    GROUP BY policy_version
), benchmarks AS (
    SELECT * FROM answers WHERE "set" NOT IN (SELECT "set" FROM others)
)
SELECT v.policy_version, v.validation, avg(b.accuracy) AS accuracy
FROM (SELECT * FROM validation ORDER BY validation DESC, policy_version LIMIT 1) AS v
JOIN benchmarks AS b ON b.policy_version = v.policy_version AND b.step = (SELECT min(last) FROM benchmarks)
GROUP BY ALL;

-- The policy version with the highest mean score, in percent, after the last turn of the sets
-- whose role is validation, the earliest of equals; with the score there and its accuracy on the
-- benchmarks, the mean over them (at the last turn that all of them have). No other set has a
-- say. A run without a validation set has no row.
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
        avg(score) FILTER (outcome IN ('ok', 'wrong', 'invalid', 'timeout')) AS accuracy -- null where no prompt left room
    FROM read_parquet(getvariable('run') || '/eval/*/*.parquet')
    WHERE sample >= 0
    GROUP BY "set", policy_version, step
), validation AS (
    SELECT policy_version, avg(accuracy) AS score
    FROM answers
    WHERE step = last AND "set" IN (SELECT "set" FROM roles WHERE role = 'validation')
    GROUP BY policy_version
), benchmarks AS (
    SELECT policy_version, CASE WHEN count(accuracy) = count(*) THEN 100 * avg(accuracy) END AS accuracy
    FROM answers
    WHERE "set" NOT IN (SELECT "set" FROM others) AND step = (SELECT min(last) FROM answers WHERE "set" NOT IN (SELECT "set" FROM others))
    GROUP BY policy_version
)
SELECT policy_version, 100 * score AS validation, accuracy
FROM validation LEFT JOIN benchmarks USING (policy_version)
ORDER BY score DESC, policy_version
LIMIT 1;

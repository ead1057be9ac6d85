-- Held-out accuracy in percent of each set and evaluated policy version after
-- each revision (step), with the standard error clustered by problem:
-- sqrt(P/(P-1) * sum over problems of (sum of deviations)^2) / N; and the share of
-- episodes whose first turn is right; delta is over the chains that have both answers. Step 0
-- is the first answer, turn 1. A step that no prompt left room for has no row. Of several
-- benchmarks (evaluation.sets.role), the mean over them too, for steps that all have (ExIt Tab. 1 and Fig. 3;
-- FlipTS Tab. 1, 2, 3 and 5 and Fig. 4 and 5).
WITH evaluation AS (
    SELECT regexp_extract(content, '\nevaluation:\n((?:  [^\n]*\n)+)', 1) AS settings FROM read_text(getvariable('run') || '/recipe.yaml')
), roles AS (
    SELECT 'test' AS "set", regexp_extract(settings, '^  role: (\S+)', 1) AS role FROM evaluation
    UNION ALL
    SELECT unnest(regexp_extract_all(settings, '- name: (\S+)\n      role: (\S+)', 1)), unnest(regexp_extract_all(settings, '- name: (\S+)\n      role: (\S+)', 2)) FROM evaluation
), others AS ( -- sets that are no benchmarks, unless none is one
    SELECT "set" FROM roles
    WHERE role NOT IN ('', 'benchmark') AND EXISTS (SELECT 1 FROM roles WHERE role IN ('', 'benchmark'))
), responses AS (
    SELECT
        "set", policy_version, step, task_id, sample, score, milestones,
        any_value(score) FILTER (step = 0) OVER (PARTITION BY "set", policy_version, task_id, sample) AS first_score
    FROM read_parquet(getvariable('run') || '/eval/*/*.parquet')
    WHERE outcome IN ('ok', 'wrong', 'invalid', 'timeout') -- the policy's own doing
),
sampled AS (
    SELECT *, avg(score) OVER (PARTITION BY "set", policy_version, step) AS mean
    FROM responses
    WHERE sample >= 0
),
problems AS (
    SELECT
        "set", policy_version, step, task_id,
        count(*) AS n, sum(score) AS total, sum(score - first_score) AS gained, count(first_score) AS paired, sum(score - mean) AS deviation,
        max(sample) + 1 AS samples, count(*) FILTER (list_contains(milestones, 'first_turn')) AS first_turns
    FROM sampled
    GROUP BY ALL
),
greedy AS (
    SELECT "set", policy_version, step, avg(score) AS accuracy
    FROM responses
    WHERE sample < 0
    GROUP BY ALL
),
by_set AS (
    SELECT
        "set",
        policy_version,
        step,
        100 * sum(total) / sum(n)                                                                     AS accuracy,
        100 * sqrt(count(*) / nullif(count(*) - 1, 0) * sum(deviation * deviation)) / sum(n)          AS standard_error,
        100 * sum(gained) / nullif(sum(paired), 0)                                                    AS delta,
        100 * any_value(greedy.accuracy)                                                              AS greedy,
        100 * sum(first_turns) / sum(n)                                                               AS first_turn,
        count(*)                                                                                      AS problems,
        max(samples)                                                                                  AS samples,
        sum(n)                                                                                        AS responses
    FROM problems
    LEFT JOIN greedy USING ("set", policy_version, step)
    GROUP BY "set", policy_version, step
)
SELECT *, step + 1 AS turn FROM by_set
UNION ALL BY NAME
SELECT 'all sets' AS "set", policy_version, step, step + 1 AS turn, avg(accuracy) AS accuracy, avg(delta) AS delta
FROM by_set
WHERE "set" NOT IN (SELECT "set" FROM others)
GROUP BY policy_version, step
HAVING count(*) > 1 AND count(*) = (SELECT count(DISTINCT "set") FROM by_set WHERE "set" NOT IN (SELECT "set" FROM others))
ORDER BY "set" = 'all sets', "set" <> 'test', "set", policy_version, step;

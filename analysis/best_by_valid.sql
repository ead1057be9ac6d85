-- HumanRank in percent of the best of the first k valid submissions of a trace on the benchmarks, k
-- up to 8, of each evaluated policy version: of all where there are fewer, 0 where there is
-- none (MLE-RL Fig. 4, right). The best has the best validation score, the earliest of
-- equals; one that says none comes last.
WITH evaluation AS (
    SELECT regexp_extract(content, '\nevaluation:\n((?:  [^\n]*\n)+)', 1) AS settings FROM read_text(getvariable('run') || '/recipe.yaml')
), roles AS (
    SELECT 'test' AS "set", regexp_extract(settings, '^  role: (\S+)', 1) AS role FROM evaluation
    UNION ALL
    SELECT unnest(regexp_extract_all(settings, '- name: (\S+)\n      role: (\S+)', 1)), unnest(regexp_extract_all(settings, '- name: (\S+)\n      role: (\S+)', 2)) FROM evaluation
), others AS ( -- sets that are no benchmarks, unless none is one
    SELECT "set" FROM roles
    WHERE role NOT IN ('', 'benchmark') AND EXISTS (SELECT 1 FROM roles WHERE role IN ('', 'benchmark'))
), attempts AS (
    SELECT
        "set", policy_version, task_id, sample, step,
        list_append(
            [{'ok': t.outcome = 'ok', 'parts': t.reward_parts} FOR t IN earlier_turns],
            {'ok': outcome = 'ok', 'parts': reward_parts}
        ) AS programs
    FROM read_parquet(getvariable('run') || '/eval/*/*.parquet')
    WHERE sample >= 0 AND outcome IN ('ok', 'wrong', 'invalid', 'timeout') AND "set" NOT IN (SELECT "set" FROM others)
), traces AS (
    SELECT "set", policy_version, task_id, sample, list_filter(flatten(list(programs ORDER BY step)), lambda p: p.ok) AS valid
    FROM attempts
    GROUP BY ALL
), numbered AS (
    SELECT "set", policy_version, task_id, sample, unnest(valid) AS p, generate_subscripts(valid, 1) AS number FROM traces
), programs AS (
    SELECT
        * EXCLUDE p,
        [r.value FOR r IN p.parts IF r.name = 'validation'][1] AS validation,
        [r.value FOR r IN p.parts IF r.name = 'humanrank'][1] AS humanrank
    FROM numbered
), best AS (
    SELECT
        t."set", t.policy_version, t.task_id, t.sample, submissions.k,
        first(p.humanrank ORDER BY p.validation DESC NULLS LAST, p.number) AS humanrank
    FROM traces AS t
    CROSS JOIN range(1, 9) AS submissions(k)
    LEFT JOIN programs AS p ON p."set" = t."set" AND p.policy_version = t.policy_version AND p.task_id = t.task_id AND p.sample = t.sample AND p.number <= submissions.k
    GROUP BY ALL
)
SELECT policy_version, k AS valid_submissions, 100 * avg(coalesce(humanrank, 0)) AS humanrank
FROM best
GROUP BY policy_version, k
ORDER BY policy_version, k;

-- HumanRank in percent of the best program so far after each attempt, of each evaluated
-- policy version: of a trace's attempts from an earlier program (memory) and of those from
-- scratch (reset), over the traces that have some, of held-out tasks for which both have a
-- valid submission (MLE-RL Fig. 4, left). The best has the best validation score, the
-- earliest of equals; one that says none comes last.
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
        CASE WHEN attempt_kind = 'initial' THEN 'reset' ELSE 'memory' END AS start,
        list_append(
            [{'ok': t.outcome = 'ok', 'parts': t.reward_parts} FOR t IN earlier_turns],
            {'ok': outcome = 'ok', 'parts': reward_parts}
        ) AS programs
    FROM read_parquet(getvariable('run') || '/eval/*/*.parquet')
    WHERE sample >= 0 AND outcome IN ('ok', 'wrong', 'invalid', 'timeout') AND "set" NOT IN (SELECT "set" FROM others)
), numbered AS (
    SELECT "set", policy_version, task_id, sample, step, start, unnest(programs) AS p, generate_subscripts(programs, 1) AS place FROM attempts
), programs AS (
    SELECT
        * EXCLUDE p, p.ok AS ok,
        [r.value FOR r IN p.parts IF r.name = 'validation'][1] AS validation,
        [r.value FOR r IN p.parts IF r.name = 'humanrank'][1] AS humanrank
    FROM numbered
), tasks AS (
    SELECT policy_version, task_id FROM programs WHERE ok GROUP BY ALL HAVING count(DISTINCT start) = 2
), best AS (
    SELECT
        t."set", t.policy_version, t.task_id, t.sample, t.start, steps.step,
        first(p.humanrank ORDER BY p.validation DESC NULLS LAST, p.step, p.place) FILTER (p.ok) AS humanrank
    FROM (SELECT DISTINCT "set", policy_version, task_id, sample, start FROM attempts) AS t
    JOIN tasks ON tasks.policy_version = t.policy_version AND tasks.task_id = t.task_id
    CROSS JOIN (SELECT unnest(range(max(step) + 1)) AS step FROM attempts) AS steps
    LEFT JOIN programs AS p
        ON p."set" = t."set" AND p.policy_version = t.policy_version AND p.task_id = t.task_id AND p.sample = t.sample AND p.start = t.start AND p.step <= steps.step
    GROUP BY ALL
)
SELECT policy_version, start, step + 1 AS attempts, 100 * avg(coalesce(humanrank, 0)) AS humanrank
FROM best
GROUP BY policy_version, start, step
ORDER BY policy_version, start, step;

-- Medals, HumanRank and quality in percent of the best program so far after each attempt,
-- of each evaluated policy version: over the benchmarks, by set and by task
-- (AceGRPO Fig. 4; MLE-RL Fig. 4, middle; ExIt Fig. 5, right, 9 and 10, whose step is an
-- attempt after the first). The best has the best validation score, the earliest of equals;
-- one that prints none comes last.
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
            [{'ok': t.outcome = 'ok', 'quality': t.score, 'parts': t.reward_parts} FOR t IN earlier_turns],
            {'ok': outcome = 'ok', 'quality': score, 'parts': reward_parts}
        ) AS programs
    FROM read_parquet(getvariable('run') || '/eval/*/*.parquet')
    WHERE sample >= 0 AND outcome IN ('ok', 'wrong', 'invalid', 'timeout')
), numbered AS (
    SELECT "set", policy_version, task_id, sample, step, unnest(programs) AS p, generate_subscripts(programs, 1) AS place FROM attempts
), programs AS (
    SELECT
        * EXCLUDE p, p.ok AS ok, p.quality AS quality,
        [r.value FOR r IN p.parts IF r.name = 'validation'][1] AS validation,
        [r.value FOR r IN p.parts IF r.name = 'medal'][1] AS medal,
        [r.value FOR r IN p.parts IF r.name = 'humanrank'][1] AS humanrank
    FROM numbered
), steps AS (
    SELECT "set", unnest(range(max(step) + 1)) AS step FROM attempts GROUP BY "set"
), best AS (
    SELECT
        t."set", t.policy_version, t.task_id, t.sample, steps.step,
        first(p.medal ORDER BY p.validation DESC NULLS LAST, p.step, p.place) FILTER (p.ok) AS medal,
        first(p.humanrank ORDER BY p.validation DESC NULLS LAST, p.step, p.place) FILTER (p.ok) AS humanrank,
        first(p.quality ORDER BY p.validation DESC NULLS LAST, p.step, p.place) FILTER (p.ok) AS quality
    FROM (SELECT DISTINCT "set", policy_version, task_id, sample FROM attempts) AS t
    JOIN steps ON steps."set" = t."set"
    LEFT JOIN programs AS p ON p."set" = t."set" AND p.policy_version = t.policy_version AND p.task_id = t.task_id AND p.sample = t.sample AND p.step <= steps.step
    GROUP BY ALL
), grouped AS (
    SELECT *, 'all' AS "by", '' AS "of" FROM best WHERE "set" NOT IN (SELECT "set" FROM others)
    UNION ALL
    SELECT *, 'set', "set" FROM best
    UNION ALL
    SELECT *, 'task', task_id FROM best
)
SELECT
    "by", "of",
    policy_version, step, step + 1              AS attempts,
    100 * avg(coalesce((medal > 0)::INT, 0))    AS any_medal,
    100 * avg(coalesce(humanrank, 0))           AS humanrank,
    100 * avg(coalesce(quality, 0))             AS quality
FROM grouped
GROUP BY "by", "of", policy_version, step
ORDER BY ALL;

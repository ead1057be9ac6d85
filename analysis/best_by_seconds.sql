-- Medals and HumanRank in percent of the best program so far on the benchmarks, of each evaluated policy
-- version, by the seconds that the programs of a held-out trace have run: a row for each
-- moment at which a program of some trace ended (AceGRPO Fig. 4, over time). The best
-- has the best validation score, the earliest of equals; one that says none comes last.
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
            [{'ok': t.outcome = 'ok', 'seconds': t.execute_seconds, 'parts': t.reward_parts} FOR t IN earlier_turns],
            -- An attempt's seconds are those of all its programs.
            {'ok': outcome = 'ok', 'seconds': execute_seconds - coalesce(list_sum([t.execute_seconds FOR t IN earlier_turns]), 0), 'parts': reward_parts}
        ) AS programs
    FROM read_parquet(getvariable('run') || '/eval/*/*.parquet')
    WHERE sample >= 0 AND outcome IN ('ok', 'wrong', 'invalid', 'timeout') AND "set" NOT IN (SELECT "set" FROM others)
), numbered AS (
    SELECT "set", policy_version, task_id, sample, step, unnest(programs) AS p, generate_subscripts(programs, 1) AS place FROM attempts
), programs AS (
    SELECT
        * EXCLUDE p, p.ok AS ok,
        sum(p.seconds) OVER (PARTITION BY "set", policy_version, task_id, sample ORDER BY step, place) AS ended,
        [r.value FOR r IN p.parts IF r.name = 'validation'][1] AS validation,
        [r.value FOR r IN p.parts IF r.name = 'medal'][1] AS medal,
        [r.value FOR r IN p.parts IF r.name = 'humanrank'][1] AS humanrank
    FROM numbered
), moments AS (
    SELECT DISTINCT policy_version, ended AS seconds FROM programs
    UNION
    SELECT policy_version, 0 FROM programs
), best AS (
    SELECT
        t."set", t.policy_version, t.task_id, t.sample, moments.seconds,
        first(p.medal ORDER BY p.validation DESC NULLS LAST, p.step, p.place) FILTER (p.ok) AS medal,
        first(p.humanrank ORDER BY p.validation DESC NULLS LAST, p.step, p.place) FILTER (p.ok) AS humanrank
    FROM (SELECT DISTINCT "set", policy_version, task_id, sample FROM attempts) AS t
    JOIN moments ON moments.policy_version = t.policy_version
    LEFT JOIN programs AS p ON p."set" = t."set" AND p.policy_version = t.policy_version AND p.task_id = t.task_id AND p.sample = t.sample AND p.ended <= moments.seconds
    GROUP BY ALL
)
SELECT
    policy_version, seconds,
    100 * avg(coalesce((medal > 0)::INT, 0))    AS any_medal,
    100 * avg(coalesce(humanrank, 0))           AS humanrank
FROM best
GROUP BY policy_version, seconds
ORDER BY policy_version, seconds;

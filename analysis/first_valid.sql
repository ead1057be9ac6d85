-- First valid submissions of held-out traces of each evaluated policy version, over the
-- benchmarks and of each set: how many win a medal, of all traces in percent; their HumanRank in percent;
-- and the number of the program, from 1 (AceGRPO Fig. 3). Every message of an attempt is
-- a program.
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
    WHERE sample >= 0 AND outcome IN ('ok', 'wrong', 'invalid', 'timeout')
), traces AS (
    SELECT "set", policy_version, task_id, sample, flatten(list(programs ORDER BY step)) AS programs
    FROM attempts
    GROUP BY ALL
), firsts AS (
    SELECT *, list_position([p.ok FOR p IN programs], true) AS number FROM traces
), graded AS (
    SELECT
        *,
        [p.value FOR p IN programs[number].parts IF p.name = 'medal'][1] AS medal,
        [p.value FOR p IN programs[number].parts IF p.name = 'humanrank'][1] AS humanrank
    FROM firsts
), grouped AS (
    SELECT * FROM graded
    UNION ALL
    SELECT * REPLACE ('all sets' AS "set") FROM graded WHERE "set" NOT IN (SELECT "set" FROM others)
)
SELECT
    "set",
    policy_version,
    count(*)                                    AS traces,
    100 * count(*) FILTER (number > 0) / count(*) AS with_valid,
    100 * avg(coalesce((medal > 0)::INT, 0))    AS medal,
    100 * avg(humanrank)                        AS humanrank,
    avg(number) FILTER (number > 0)             AS number
FROM grouped
GROUP BY "set", policy_version
ORDER BY "set" = 'all sets' DESC, "set" <> 'test', "set", policy_version;

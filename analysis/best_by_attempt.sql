-- Medals and HumanRank in percent of the best program so far after each attempt, of each
-- set and evaluated policy version (AceGRPO, Figure 4; MLE-RL, Figure 4, middle). The best
-- has the best validation score, the earliest of equals; one that says none comes last.
WITH attempts AS (
    SELECT
        "set", policy_version, task_id, sample, step,
        list_append(
            [{'ok': t.outcome = 'ok', 'parts': t.reward_parts} FOR t IN earlier_turns],
            {'ok': outcome = 'ok', 'parts': reward_parts}
        ) AS programs
    FROM read_parquet(getvariable('run') || '/eval/*/*.parquet')
    WHERE sample >= 0 AND outcome IN ('ok', 'wrong', 'invalid', 'timeout')
), numbered AS (
    SELECT "set", policy_version, task_id, sample, step, unnest(programs) AS p, generate_subscripts(programs, 1) AS place FROM attempts
), programs AS (
    SELECT
        * EXCLUDE p, p.ok AS ok,
        [r.value FOR r IN p.parts IF r.name = 'validation'][1] AS validation,
        [r.value FOR r IN p.parts IF r.name = 'medal'][1] AS medal,
        [r.value FOR r IN p.parts IF r.name = 'humanrank'][1] AS humanrank
    FROM numbered
), best AS (
    SELECT
        a."set", a.policy_version, a.task_id, a.sample, a.step,
        first(p.medal ORDER BY p.validation DESC NULLS LAST, p.step, p.place) FILTER (p.ok) AS medal,
        first(p.humanrank ORDER BY p.validation DESC NULLS LAST, p.step, p.place) FILTER (p.ok) AS humanrank
    FROM attempts AS a
    JOIN programs AS p ON p."set" = a."set" AND p.policy_version = a.policy_version AND p.task_id = a.task_id AND p.sample = a.sample AND p.step <= a.step
    GROUP BY ALL
)
SELECT
    "set", policy_version, step + 1 AS attempts,
    100 * avg(coalesce((medal > 0)::INT, 0))    AS any_medal,
    100 * avg(coalesce(humanrank, 0))           AS humanrank
FROM best
GROUP BY "set", policy_version, step
ORDER BY "set" <> 'test', "set", policy_version, step;

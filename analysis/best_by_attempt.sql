-- Medals, HumanRank and quality in percent of the best program so far after each attempt,
-- of each evaluated policy version: over all held-out tasks, by set and by task
-- (AceGRPO Fig. 4; MLE-RL Fig. 4, middle; ExIt Fig. 5, right, 9 and 10, whose step is an
-- attempt after the first). The best has the best validation score, the earliest of equals;
-- one that prints none comes last.
WITH attempts AS (
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
)
SELECT
    CASE WHEN grouping("set") = 0 THEN 'set' WHEN grouping(task_id) = 0 THEN 'task' ELSE 'all' END AS "by",
    coalesce("set", task_id, '')                AS "of",
    policy_version, step, step + 1              AS attempts,
    100 * avg(coalesce((medal > 0)::INT, 0))    AS any_medal,
    100 * avg(coalesce(humanrank, 0))           AS humanrank,
    100 * avg(coalesce(quality, 0))             AS quality
FROM best
GROUP BY GROUPING SETS ((policy_version, step), ("set", policy_version, step), (task_id, policy_version, step))
ORDER BY ALL;

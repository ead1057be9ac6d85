-- Held-out submissions of each set and evaluated policy version, in percent: valid ones,
-- above the median, medals, and HumanRank as 1 - p/N and as MLE-Dojo has it. Of each sample
-- of a task one is chosen, of its first attempt or of all, by the best validation score, the
-- earliest of equals, one that prints none last; 0 where none is valid. Means over tasks, then
-- over samples (AceGRPO Tab. 1 and 2; MLE-RL Tab. 1, 2, 3, 5 and 6, and MLE-RL Tab. 4 but
-- for its share of data).
WITH attempts AS (
    SELECT
        "set", policy_version, task_id, sample, step,
        list_append(
            [{'ok': t.outcome = 'ok', 'parts': t.reward_parts} FOR t IN earlier_turns],
            {'ok': outcome = 'ok', 'parts': reward_parts}
        ) AS programs
    FROM read_parquet(getvariable('run') || '/eval/*/*.parquet')
    WHERE sample >= 0 AND outcome IN ('ok', 'wrong', 'invalid', 'timeout', 'no_room') -- without room there is no submission
), numbered AS (
    SELECT "set", policy_version, task_id, sample, step, unnest(programs) AS p, generate_subscripts(programs, 1) AS place FROM attempts
), programs AS (
    SELECT * EXCLUDE p, p.ok AS ok, p.parts AS parts, [r.value FOR r IN p.parts IF r.name = 'validation'][1] AS validation FROM numbered
), choices AS (
    SELECT * FROM (VALUES ('first attempt', 0), ('all attempts', 2147483647)) AS c(chosen_of, last_step)
), chosen AS (
    SELECT
        "set", policy_version, task_id, sample, chosen_of,
        first(parts ORDER BY validation DESC NULLS LAST, step, place) FILTER (ok AND step <= last_step) AS parts
    FROM programs
    CROSS JOIN choices
    GROUP BY ALL
), verdicts AS (
    SELECT
        *,
        coalesce([r.value FOR r IN parts IF r.name = 'above_median'][1], 0) AS above_median,
        coalesce([r.value FOR r IN parts IF r.name = 'medal'][1], 0) AS medal,
        coalesce([r.value FOR r IN parts IF r.name = 'humanrank'][1], 0) AS humanrank,
        coalesce([r.value FOR r IN parts IF r.name = 'humanrank_mledojo'][1], 0) AS humanrank_mledojo
    FROM chosen
), samples AS (
    SELECT
        "set", policy_version, chosen_of, sample,
        100 * avg((parts IS NOT NULL)::INT)     AS valid,
        100 * avg(above_median)                 AS above_median,
        100 * avg((medal = 1)::INT)             AS bronze,
        100 * avg((medal = 2)::INT)             AS silver,
        100 * avg((medal = 3)::INT)             AS gold,
        100 * avg((medal >= 1)::INT)            AS any_medal,
        100 * avg(humanrank)                    AS humanrank,
        100 * avg(humanrank_mledojo)            AS humanrank_mledojo
    FROM verdicts
    GROUP BY ALL
)
SELECT
    "set", policy_version, chosen_of,
    avg(valid) AS valid, avg(above_median) AS above_median, avg(bronze) AS bronze, avg(silver) AS silver, avg(gold) AS gold,
    avg(any_medal) AS any_medal, avg(humanrank) AS humanrank, avg(humanrank_mledojo) AS humanrank_mledojo
FROM samples
GROUP BY "set", policy_version, chosen_of
ORDER BY "set" <> 'test', "set", policy_version, chosen_of DESC;

-- Valid submissions of training by HumanRank, in tenths, in percent (MLE-RL Fig. 3 (a)).
WITH traces AS (
    SELECT instance_id, sample, arg_max(outcome, filename) AS outcome, arg_max(turns, filename) AS turns
    FROM (SELECT instance_id, sample, outcome, turns, filename FROM read_parquet(getvariable('run') || '/iter/*/**/score/*.parquet', filename = true))
    GROUP BY ALL
), programs AS (
    SELECT unnest(turns) AS turn FROM traces WHERE outcome IN ('ok', 'wrong', 'invalid', 'timeout')
), ranks AS (
    SELECT [p.value FOR p IN turn.reward_parts IF p.name = 'humanrank'][1] AS humanrank FROM programs WHERE turn.outcome = 'ok'
)
SELECT
    10 * tenth                          AS from_percent,
    100 * count(humanrank) / ranked     AS submissions
FROM range(10) AS tenths(tenth)
CROSS JOIN (SELECT count(humanrank) AS ranked FROM ranks)
LEFT JOIN ranks ON least(9, floor(10 * humanrank + 1e-9)) = tenth
WHERE ranked > 0
GROUP BY tenth, ranked
ORDER BY tenth;

-- The share of the segments of training that were learned from, in percent (MLE-RL Tab. 4).
SELECT
    count(*)                                        AS segments,
    100 * avg((fate = 'trained')::INT)              AS data
FROM read_parquet(getvariable('run') || '/iter/*/ledger.parquet');

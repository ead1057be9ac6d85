-- Distinct training instances, which are distinct last messages of prompts: of the whole
-- run, and relative to the training set and to all sampled ones (ExIt Fig. 7).
SELECT
    count(DISTINCT messages[-1].content)                AS distinct_instances,
    count(DISTINCT messages[-1].content)
        / (SELECT count(*) FROM read_parquet(getvariable('run') || '/tasks.parquet') WHERE split = 'train') AS relative_to_training_set,
    count(DISTINCT messages[-1].content) / count(*)     AS share_of_sampled
FROM read_parquet(getvariable('run') || '/iter/*/plan.parquet')
WHERE len(messages) > 0;

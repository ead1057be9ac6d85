-- One row per iteration: what was sampled and what was learned.
SELECT
    iteration,
    max(value) FILTER (stage = 'buffer' AND name = 'reward_mean')          AS reward,
    max(value) FILTER (stage = 'buffer' AND name = 'score_mean')           AS score,
    sum(value) FILTER (stage = 'rollout' AND name = 'response_tokens')
        / sum(value) FILTER (stage = 'rollout' AND name = 'responses')     AS tokens_per_response,
    max(value) FILTER (stage = 'buffer' AND name = 'depth_mean')           AS depth,
    max(value) FILTER (stage = 'buffer' AND name = 'curriculum_instances') AS buffer_size,
    -- Where gradients are computed in shards, names begin with the optimizer step.
    avg(value) FILTER (stage = 'learn' AND name SIMILAR TO '(step-\d+/)?entropy')             AS entropy,
    avg(value) FILTER (stage = 'learn' AND name SIMILAR TO '(step-\d+/)?grad_norm')           AS gradient_norm,
    max(value) FILTER (stage = 'learn' AND name SIMILAR TO '(step-\d+/)?ratio_deviation_max') AS ratio_deviation
FROM read_parquet(getvariable('run') || '/iter/*/metrics.parquet')
WHERE iteration > 0
GROUP BY iteration
ORDER BY iteration;

package score

import (
	"context"
	"slices"

	"github.com/lathe-rl/lathe/pkg/policy/remote"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// askForEmbeddings gives the scores of this wave the embeddings that the recipe's server has
// of their responses. Equal texts are asked for once.
func (s scorer) askForEmbeddings(ctx context.Context, spec *recipe.Endpoint, traces [][]shard.Rollout, verdicts []verdict) error {
	url, key, err := spec.Resolve()
	if err != nil {
		return err
	}
	var texts []string
	at := map[string]int{}
	place := make([]int, len(verdicts)) // in texts; -1 for none
	for i := range verdicts {
		if place[i] = -1; !verdicts[i].Judged {
			continue
		}
		text := lastCharacters(s.embedded(traces[i], verdicts[i].Score.Extracted), spec.Characters)
		if _, known := at[text]; !known {
			at[text] = len(texts)
			texts = append(texts, text)
		}
		place[i] = at[text]
	}
	embeddings, err := remote.Embed(ctx, remote.Options{
		URL: url, Key: key, Model: spec.Model, Section: "score.endpoint", Concurrency: spec.Concurrency,
		Timeout: stage.Seconds(spec.TimeoutSeconds), Retries: spec.Retries, Backoff: stage.Seconds(spec.BackoffSeconds), Log: s.log,
	}, spec.Batch, texts)
	if err != nil {
		return err
	}
	for i := range verdicts {
		if place[i] >= 0 {
			verdicts[i].Score.Embedding = slices.Clone(embeddings[place[i]])
		}
	}
	return nil
}

// lastCharacters is the end of a text, of at most n characters; all of it for 0.
// A server is asked for an empty text as for any other, which some refuse: a space
// stands for it.
func lastCharacters(text string, n int) string {
	if text == "" {
		return " "
	}
	if characters := []rune(text); n > 0 && len(characters) > n {
		return string(characters[len(characters)-n:])
	}
	return text
}

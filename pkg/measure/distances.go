package measure

import (
	"context"
	"math"

	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/score"
)

// mostCompared bounds the texts that are compared pair by pair: of more, every n-th.
const mostCompared = 2000

// Thinned takes at most some texts, evenly.
func Thinned(texts []string, most int) []string {
	if len(texts) <= most {
		return texts
	}
	picked := make([]string, most)
	for i := range picked {
		picked[i] = texts[i*len(texts)/most]
	}
	return picked
}

// instanceDistances are the mean distances of pairs of distinct prompts of training that
// start from an earlier response, and of pairs of all of them.
func instanceDistances(ctx context.Context, r *Rows) ([]Value, error) {
	var values []Value
	for _, of := range []struct {
		group string
		which func(shard.Instance) bool
	}{{"revisions", revises}, {"all", func(shard.Instance) bool { return true }}} {
		prompts, err := r.promptsOf(ctx, of.which)
		if err != nil {
			return nil, err
		}
		cosine, euclidean, known, err := r.distances(ctx, prompts)
		if err != nil {
			return nil, err
		}
		if known {
			values = append(values, Value{"prompts", of.group, "prompts", nil, float64(len(prompts))},
				Value{"prompts", of.group, "cosine", nil, cosine}, Value{"prompts", of.group, "l2", nil, euclidean})
		}
	}
	return values, nil
}

// Embed gives a vector for each text, all of one length. A policy's own states would be
// another measure in each run, so that methods could not be compared.
type Embed func(ctx context.Context, texts []string) ([][]float32, error)

// Embedded are unit vectors of texts: those that Embed gives, of length 1, or embeddings of
// hashed n-grams where it is nil.
func (r *Rows) Embedded(ctx context.Context, texts []string) ([][]float32, error) {
	if r.Embed == nil {
		vectors := make([][]float32, len(texts))
		for i, text := range texts {
			vectors[i] = score.NGrams(text)
		}
		return vectors, nil
	}
	vectors, err := r.Embed(ctx, texts)
	for _, vector := range vectors {
		var square float64
		for _, x := range vector {
			square += float64(x) * float64(x)
		}
		if square == 0 {
			continue
		}
		for d := range vector {
			vector[d] = float32(float64(vector[d]) / math.Sqrt(square))
		}
	}
	return vectors, err
}

// distances are the mean cosine and Euclidean distance of the pairs of texts by their
// embeddings; known is false of fewer than two texts.
func (r *Rows) distances(ctx context.Context, texts []string) (cosine, euclidean float64, known bool, err error) {
	texts = Thinned(texts, mostCompared)
	if len(texts) < 2 {
		return cosine, euclidean, false, nil
	}
	vectors, err := r.Embedded(ctx, texts)
	if err != nil {
		return cosine, euclidean, false, err
	}
	for i, a := range vectors {
		for _, b := range vectors[:i] {
			var dot, square float64
			for d := range a {
				x, y := float64(a[d]), float64(b[d])
				dot += x * y
				square += (x - y) * (x - y)
			}
			cosine += 1 - dot
			euclidean += math.Sqrt(square)
		}
	}
	pairs := float64(len(vectors)*(len(vectors)-1)) / 2
	return cosine / pairs, euclidean / pairs, true, nil
}

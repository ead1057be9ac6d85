package score

import (
	"hash/fnv"
	"math"
	"strings"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// embeddingWidth is the length of an n-gram embedding.
const embeddingWidth = 64

// NGrams embeds a text as the unit vector of its hashed byte 1-, 2- and
// 3-gram counts (feature hashing with signs: Weinberger et al., Feature
// Hashing for Large Scale Multitask Learning, ICML 2009, section 2). It
// stands in for the embedding models of the papers: it needs no download and
// it is the same on every machine. The empty text is the zero vector.
func NGrams(text string) []float32 {
	counts := make([]float64, embeddingWidth)
	for n := 1; n <= 3; n++ {
		for i := 0; i+n <= len(text); i++ {
			h := fnv.New64a()
			h.Write([]byte(text[i : i+n]))
			sum := h.Sum64()
			sign := 1.0
			if sum>>63 == 1 {
				sign = -1
			}
			counts[sum%embeddingWidth] += sign
		}
	}
	var square float64
	for _, c := range counts {
		square += c * c
	}
	embedding := make([]float32, embeddingWidth)
	if square == 0 {
		return embedding
	}
	for i, c := range counts {
		embedding[i] = float32(c / math.Sqrt(square))
	}
	return embedding
}

// embedded is the text of a trace that responses are compared by: what the environment
// extracted from it where the recipe says so (reading exit-embedding); else the policy's
// last message, or all that it said in the last attempt where the last message alone, such
// as <TASK_FINISHED>, tells nothing of what it has done.
func (s scorer) embedded(rows []shard.Rollout, extracted string) string {
	if s.embed == recipe.EmbedExtracted {
		return extracted
	}
	last := rows[len(rows)-1].Step
	var said []string
	for _, row := range rows {
		if row.Step != last {
			continue
		}
		for _, at := range env.Said(row.Messages, int(row.PromptMessages)) {
			said = append(said, row.Messages[at].Content)
		}
	}
	if !s.environment.Traits().Transcript {
		said = said[max(0, len(said)-1):]
	}
	return strings.Join(said, "\n")
}

package score

import (
	"hash/fnv"
	"math"
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

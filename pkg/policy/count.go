package policy

// blockMatrices is the number of elements of the matrices of a layer's block; of
// experts it counts so many.
func (c Config) blockMatrices(l Layer, experts int) float64 {
	hidden, queries, keys := float64(c.HiddenSize), float64(c.QueryWidth()), float64(c.KeyValueWidth())
	attention := hidden * (2*queries + 2*keys)
	if c.Mixture(l) {
		return attention + hidden*(float64(c.Experts)+3*float64(experts)*float64(c.ExpertSize))
	}
	return attention + 3*hidden*float64(c.IntermediateSize)
}

// blockNorms is the number of weights of the norms of one block.
func (c Config) blockNorms() int {
	n := 2 * c.HiddenSize
	if c.Norms == NormBoth {
		n *= 2
	}
	switch c.QKNorm {
	case QKNormHead:
		n += 2 * c.HeadDim
	case QKNormAll:
		n += c.QueryWidth() + c.KeyValueWidth()
	}
	return n
}

// parameters is the number of parameters, which for absurd sizes is more than
// an int holds. Below 2^53 it is exact.
func (c Config) parameters() float64 {
	block := float64(c.blockNorms())
	if c.QKVBias {
		block += float64(c.QueryWidth() + 2*c.KeyValueWidth())
	}
	if c.OutputBias {
		block += float64(c.HiddenSize)
	}
	if c.MLPBias {
		block += float64(2*c.IntermediateSize + c.HiddenSize)
	}
	table := float64(c.VocabSize) * float64(c.HiddenSize)
	total := float64(c.NumHiddenLayers)*block + table + float64(c.HiddenSize)
	total += c.sumLayers(func(l Layer) float64 { return c.blockMatrices(l, c.Experts) })
	if !c.TieWordEmbeddings {
		total += table
	}
	return total
}

// ParameterCount is the number of trained parameters of a valid
// configuration; a tied head counts once.
func ParameterCount(c Config) int { return int(c.parameters()) }

// FLOPsPerToken is the work of training on one token of sequences of S tokens,
// forward and backward, in floating-point operations:
//
//	6·N_mat + 6·L·(Hq·dh)·S
//
// with N_mat the parameters of the blocks' matrices, of experts those that one
// token goes to, and of the head (the gather of the embedding is free) and causal attention over S/2 keys on
// average. A layer with a window of W < S tokens has (W - W²/2S) keys on average
// in place of S/2. Forward alone is a third of it.
func FLOPsPerToken(c Config, sequenceTokens int) float64 {
	return 6*c.matrices() + 6*float64(c.QueryWidth())*c.sumLayers(func(l Layer) float64 {
		s, w := float64(sequenceTokens), float64(l.Window)
		if l.Window == 0 || w >= s {
			return s
		}
		return 2*w - w*w/s
	})
}

// sumLayers adds up a number of every layer.
func (c Config) sumLayers(f func(l Layer) float64) float64 {
	if len(c.Layers) == 0 {
		return float64(c.NumHiddenLayers) * f(Layer{}) // damaged files have millions
	}
	total := 0.0
	for i := range c.NumHiddenLayers {
		total += f(c.Layer(i))
	}
	return total
}

// DecodeFLOPsPerToken is the work of the forward pass of one token behind a
// context of so many tokens: 2·N_mat + 4·L·(Hq·dh)·context, with N_mat as for
// FLOPsPerToken, and in a layer with a window at most the window in place of the
// context.
func DecodeFLOPsPerToken(c Config, context int) float64 {
	return 2*c.matrices() + 4*float64(c.QueryWidth())*c.sumLayers(func(l Layer) float64 {
		if l.Window == 0 {
			return float64(context)
		}
		return float64(min(context, l.Window))
	})
}

// matrices is N_mat of FLOPsPerToken.
func (c Config) matrices() float64 {
	blocks := c.sumLayers(func(l Layer) float64 { return c.blockMatrices(l, c.ExpertsPerToken) })
	return blocks + float64(c.VocabSize)*float64(c.HiddenSize)
}

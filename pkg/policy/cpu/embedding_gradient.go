package cpu

import "github.com/lathe-rl/lathe/pkg/vec"

// lookups is the gradient of the embedding by its use as a table of rows: only
// the rows that were looked up. It is kept apart from the gradient of a tied
// head, so that every element of either is one chain over the tokens, however
// they are divided among backward passes.
type lookups struct {
	place map[int32]int32 // of a token's row among rows
	ids   []int32         // the tokens
	rows  []float32       // (ids, h), in the order of ids
	at    []int32         // (N) of the tokens of one pass
}

func (l *lookups) reset() {
	clear(l.place)
	l.ids, l.rows = l.ids[:0], l.rows[:0]
}

// find sets l.at for tokens (N), and makes room for those that are new: width
// is h.
func (l *lookups) find(tokens []int32, width int) {
	if l.place == nil {
		l.place = make(map[int32]int32)
	}
	l.at = grow(l.at, len(tokens))
	for i, id := range tokens {
		place, ok := l.place[id]
		if !ok {
			place = int32(len(l.ids))
			l.place[id] = place
			l.ids = append(l.ids, id)
		}
		l.at[i] = place
	}
	l.rows = append(l.rows, make([]float32, len(l.ids)*width-len(l.rows))...)
}

// addTo adds the rows to the gradient of the whole embedding, and forgets them.
func (l *lookups) addTo(embed *weight, threads int) {
	width := embed.in
	parallel(threads, len(l.ids), rowGrain, func(_, from, to int) {
		for i := from; i < to; i++ {
			row := embed.grad[int(l.ids[i])*width:][:width]
			vec.Add(row, row, l.rows[i*width:(i+1)*width])
		}
	})
	l.reset()
}

// embeddingGrad adds the residual stream's gradient at each token to that of
// the embedding's row of that token, token by token in ascending order.
func (p *pass) embeddingGrad() {
	width, l, stream, scale := p.e.config.HiddenSize, &p.e.lookups, p.gradients.stream, p.e.embeddingScale()
	l.find(p.tokens, width)
	parallelColumns(p, width, func(_ []float32, from, to int) {
		for i, at := range l.at {
			row, grad := l.rows[int(at)*width+from:int(at)*width+to], stream[i*width+from:i*width+to]
			if scale == 1 {
				vec.Add(row, row, grad)
			} else {
				vec.AXPY(row, scale, grad)
			}
		}
	})
}

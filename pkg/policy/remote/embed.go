package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"

	"golang.org/x/sync/errgroup"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/rng"
)

// embeddingBytes is what the answer for one text may be long: a few thousand
// numbers in decimal.
const embeddingBytes = 1 << 20

// embeddings is the answer of /v1/embeddings.
type embeddings struct {
	Data []struct {
		Index     int       `json:"index"`
		Embedding []float64 `json:"embedding"`
	} `json:"data"`
}

// Embed asks a server with OpenAI's interface for the embedding of each text, in
// requests of at most batch texts. All have one length. Of the options it takes
// the address, the model, the key, and how patiently it is asked. A server that
// refuses, or gives no answer by the last try, is an error, and so is an answer
// that is not an embedding of each text.
func Embed(ctx context.Context, o Options, batch int, texts []string) ([][]float32, error) {
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	defer c.http.CloseIdleConnections()
	all := make([][]float32, len(texts))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, o.Concurrency))
	for first := 0; first < len(texts); first += batch {
		group.Go(func() error {
			last := min(first+batch, len(texts))
			got, err := c.embed(ctx, first, texts[first:last])
			copy(all[first:last], got)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("asking %s for embeddings: %w", c.base, err)
	}
	for i := range all {
		if len(all[i]) != len(all[0]) {
			return nil, exitcode.Unavailablef("%s gave embeddings of %d and of %d numbers", c.base, len(all[0]), len(all[i]))
		}
	}
	return all, nil
}

// embed asks for some texts, the first of which has a number.
func (c *Client) embed(ctx context.Context, first int, texts []string) ([][]float32, error) {
	posted, err := json.Marshal(map[string]any{"model": c.o.Model, "input": texts, "encoding_format": "float"})
	if err != nil {
		return nil, exitcode.Bugf("encoding a request: %w", err)
	}
	var got [][]float32
	stream := rng.New(0, rng.PurposeSample, 0, "waiting between requests for embeddings", first)
	_, failed, err := c.insist(ctx, stream, func() *fault {
		answered, failed := c.call(ctx, http.MethodPost, "/v1/embeddings", posted, len(texts)*embeddingBytes)
		if failed == nil {
			var err error
			if got, err = readEmbeddings(answered, len(texts)); err != nil {
				failed = &fault{err: fmt.Errorf("/v1/embeddings: %w", err)}
			}
		}
		return failed
	})
	if err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, exitcode.Unavailablef("%w", failed)
	}
	return got, nil
}

// readEmbeddings takes an answer apart: one embedding of each of n texts.
func readEmbeddings(answered []byte, n int) ([][]float32, error) {
	var a embeddings
	if err := json.Unmarshal(answered, &a); err != nil {
		return nil, fmt.Errorf("unreadable answer: %w", err)
	}
	got := make([][]float32, n)
	for _, e := range a.Data {
		switch {
		case e.Index < 0 || e.Index >= n || got[e.Index] != nil:
			return nil, fmt.Errorf("the answer's index %d is out of range for %d texts or repeated", e.Index, n)
		case len(e.Embedding) == 0:
			return nil, fmt.Errorf("embedding %d has no numbers", e.Index)
		}
		got[e.Index] = make([]float32, len(e.Embedding))
		for i, x := range e.Embedding {
			if got[e.Index][i] = float32(x); math.IsInf(float64(got[e.Index][i]), 0) {
				return nil, fmt.Errorf("number %d of embedding %d is %g", i, e.Index, x)
			}
		}
	}
	if len(a.Data) != n {
		return nil, fmt.Errorf("the answer has %d embeddings, want %d", len(a.Data), n)
	}
	return got, nil
}

package kvcache

import "encoding/binary"

// Prompt is a sequence and the requests that go on from its end.
type Prompt[T any] struct {
	IDs      []int32
	Requests []int // indices into the call's requests
	Keep     bool  // whether one of them wants its pages kept

	Pages  []*Page[T]
	Prefix Prefix // of the whole pages that are computed
	Done   int    // tokens whose keys and values the pages have
	Users  int    // responses that wait for these pages
}

// Prompts are the prompts of a call's requests, each once, in the order of their first
// appearance.
type Prompts[T any] struct {
	List  []*Prompt[T]
	byIDs map[string]*Prompt[T]
}

// Add adds a request that wants tokens after a prompt.
func (p *Prompts[T]) Add(ids []int32, request int, keep bool) {
	key := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		key = binary.LittleEndian.AppendUint32(key, uint32(id))
	}
	prompt := p.byIDs[string(key)]
	if prompt == nil {
		if p.byIDs == nil {
			p.byIDs = map[string]*Prompt[T]{}
		}
		prompt = &Prompt[T]{IDs: ids}
		p.byIDs[string(key)] = prompt
		p.List = append(p.List, prompt)
	}
	prompt.Requests = append(prompt.Requests, request)
	prompt.Keep = prompt.Keep || keep
}

// Attach gives the prompt the pages of its start that the pool has. At least its last
// token is left, whose logits are wanted.
func (p *Prompt[T]) Attach(pool *Pool[T]) {
	for p.Done == len(p.Pages)*Tokens && p.Done+Tokens < len(p.IDs) {
		upTo := p.Prefix.Extend(p.IDs[p.Done:])
		page := pool.Lookup(upTo)
		if page == nil {
			return
		}
		p.Pages, p.Prefix, p.Done = append(p.Pages, page), upTo, p.Done+Tokens
	}
}

// Advance notes that n more tokens are computed, and enters the pages that are full now
// into the index.
func (p *Prompt[T]) Advance(pool *Pool[T], n int) {
	whole := p.Done / Tokens
	p.Done += n
	for ; (whole+1)*Tokens <= p.Done; whole++ {
		p.Prefix = p.Prefix.Extend(p.IDs[whole*Tokens:])
		pool.Insert(p.Pages[whole], p.Prefix)
	}
}

// Drop gives the prompt's pages back.
func (p *Prompt[T]) Drop(pool *Pool[T]) {
	pool.Release(p.Pages, p.Keep)
	p.Pages, p.Prefix, p.Done = nil, Prefix{}, 0
}

// PageOf is page number n of a sequence, which it fills: a prompt and then its response.
func PageOf(n int, prompt, response []int32) []int32 {
	tokens := make([]int32, 0, Tokens)
	from, to := n*Tokens, (n+1)*Tokens
	if from < len(prompt) {
		tokens = append(tokens, prompt[from:min(to, len(prompt))]...)
	}
	if to > len(prompt) {
		tokens = append(tokens, response[max(0, from-len(prompt)):to-len(prompt)]...)
	}
	return tokens
}

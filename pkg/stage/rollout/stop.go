package rollout

import (
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/remote"
)

// watch tells an engine when a response completes a stop string.
func (s *Sampler) watch() func(response []int32) bool {
	if s.stops.Empty() {
		return nil
	}
	matcher, decoder := s.stops.Matcher(), s.Chat.Tokenizer().NewByteDecoder()
	return func(response []int32) bool {
		_, found := matcher.Write(decoder.Write(response[len(response)-1]))
		return found
	}
}

// end finds out how a response has ended, and returns its text: without a stop
// token at its end, up to the stop string if there is one. A server goes on
// after a stop string, so the tokens after the one that completes it are taken
// away.
func (s *Sampler) end(p *part, r *remote.Reply) (content string) {
	p.stop = ""
	said := r.TokenIDs
	p.closed = r.FinishReason == policy.FinishStop && len(said) > 0 && s.closes(said[len(said)-1])
	if p.closed {
		said = said[:len(said)-1]
	}
	tokenizer := s.Chat.Tokenizer()
	matcher, decoder := s.stops.Matcher(), tokenizer.NewByteDecoder()
	for i, id := range said {
		match, found := matcher.Write(decoder.Write(id))
		if !found {
			continue
		}
		p.stop, p.closed = match.Stop, false
		r.TokenIDs, r.FinishReason = r.TokenIDs[:i+1], policy.FinishStop
		if r.LogProbs != nil {
			r.LogProbs = r.LogProbs[:i+1]
		}
		end := match.Start
		if s.includeStop {
			end = match.End
		}
		return tokenizer.Decode(said[:i+1])[:end]
	}
	return tokenizer.Decode(said)
}

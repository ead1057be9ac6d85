// Package remotetest is a server of policies for tests: our own engine behind
// the HTTP interface of vLLM, SGLang, llama.cpp or OpenAI, so that what comes
// over the wire can be compared with what the engine says, bit for bit.
package remotetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stopstring"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// Server is an http.Handler.
type Server struct {
	Dialect string // vllm, sglang, llama.cpp or openai
	// Folders lists the policies that are served now. The model that a request
	// names is found by the folder's path or by its last element.
	Folders func() []string
	// Stream is where the numbers for a seed come from; nil makes a stream of
	// the seed itself.
	Stream func(seed int64) rng.Stream
	// Tamper, unless nil, sees the answer to generation request n, from 0,
	// before it is sent. It may change it, or answer itself and return true.
	Tamper func(n int, w http.ResponseWriter, r *http.Request, answer map[string]any) (answered bool)

	mutex    sync.Mutex // engines are for one goroutine at a time
	loaded   map[string]*loaded
	requests int
}

type loaded struct {
	engine *policy.Engine
	chat   *tokenizer.Chat
}

// request is what the dialects ask for.
type request struct {
	Model          string          `json:"model"`
	Prompt         []int32         `json:"prompt"`
	Messages       []shard.Message `json:"messages"`
	MaxTokens      int             `json:"max_tokens"`
	Temperature    *float32        `json:"temperature"`
	TopP           *float32        `json:"top_p"`
	TopK           int             `json:"top_k"`
	MinP           *float32        `json:"min_p"`
	Seed           int64           `json:"seed"`
	N              int             `json:"n"`
	Stop           []int32         `json:"stop_token_ids"`
	StopStrings    []string        `json:"stop"`
	IncludeStop    bool            `json:"include_stop_str_in_output"` // vLLM
	NoStopTrim     bool            `json:"no_stop_trim"`               // SGLang
	LogProbs       json.RawMessage `json:"logprobs"`
	ReturnTokenIDs bool            `json:"return_token_ids"`
	AsTokenIDs     bool            `json:"return_tokens_as_token_ids"`
}

// Requests is the number of generation requests so far.
func (s *Server) Requests() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.requests
}

// Close frees the engines.
func (s *Server) Close() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, l := range s.loaded {
		if err := l.engine.Close(); err != nil {
			return err
		}
	}
	s.loaded = nil
	return nil
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/health":
	case "/v1/models":
		s.models(w)
	case "/props":
		s.json(w, http.StatusOK, map[string]any{"default_generation_settings": map[string]any{"n_ctx": 1 << 20}})
	case "/v1/completions", "/v1/chat/completions":
		s.generate(w, r)
	default:
		s.fail(w, http.StatusNotFound, "Not Found")
	}
}

func (s *Server) json(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // a client that has gone is no concern of ours
}

// fail answers an error as the dialect words it.
func (s *Server) fail(w http.ResponseWriter, code int, message string) {
	inner := map[string]any{"message": message, "type": "BadRequestError", "param": nil, "code": code}
	if s.Dialect == "sglang" {
		inner["object"] = "error"
		s.json(w, code, inner)
		return
	}
	s.json(w, code, map[string]any{"error": inner})
}

func (s *Server) models(w http.ResponseWriter) {
	var data []map[string]any
	for _, folder := range s.Folders() {
		entry := map[string]any{"id": folder, "object": "model"}
		if s.Dialect == "vllm" || s.Dialect == "sglang" {
			entry["id"], entry["root"] = filepath.Base(folder), folder
		}
		data = append(data, entry)
	}
	s.json(w, http.StatusOK, map[string]any{"object": "list", "data": data})
}

// open loads the policy that a request names. The mutex is held.
func (s *Server) open(model string) (*loaded, error) {
	for _, folder := range s.Folders() {
		if model != folder && model != filepath.Base(folder) {
			continue
		}
		if l := s.loaded[folder]; l != nil {
			return l, nil
		}
		engine, err := backend.Open(folder, backend.Options{Backend: backend.CPU, Threads: 1})
		if err != nil {
			return nil, err
		}
		chat, err := tokenizer.LoadChat(folder)
		if err != nil {
			return nil, err
		}
		if s.loaded == nil {
			s.loaded = map[string]*loaded{}
		}
		s.loaded[folder] = &loaded{engine, chat}
		return s.loaded[folder], nil
	}
	return nil, fmt.Errorf("model %q does not exist", model)
}

func (s *Server) generate(w http.ResponseWriter, r *http.Request) {
	var ask request
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		s.fail(w, http.StatusBadRequest, err.Error())
		return
	}
	answer, n, code, err := s.answer(r, ask)
	if err != nil {
		s.fail(w, code, err.Error())
		return
	}
	if s.Tamper != nil && s.Tamper(n, w, r, answer) {
		return
	}
	s.json(w, http.StatusOK, answer)
}

// answer generates, and words the answer.
func (s *Server) answer(r *http.Request, ask request) (answer map[string]any, n, code int, err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	n = s.requests
	s.requests++
	l, err := s.open(ask.Model)
	if err != nil {
		return nil, n, http.StatusNotFound, err
	}
	chat := r.URL.Path == "/v1/chat/completions"
	if chat {
		if ask.Prompt, _, err = l.chat.Render(ask.Messages, true); err != nil {
			return nil, n, http.StatusBadRequest, err
		}
	}
	if ask.Temperature == nil || ask.TopP == nil || s.Dialect != "openai" && ask.MinP == nil || ask.N != 1 || len(ask.Prompt) == 0 {
		return nil, n, http.StatusBadRequest, fmt.Errorf("a sampling parameter is left to the server, or there is no prompt")
	}
	stops := append(slices.Clone(ask.Stop), l.engine.Config().EOSTokenIDs...)
	stream := rng.Stream{Key: [2]uint32{uint32(ask.Seed), uint32(ask.Seed >> 32)}}
	if s.Stream != nil {
		stream = s.Stream(ask.Seed)
	}
	set, err := stopstring.New(ask.StopStrings)
	if err != nil {
		return nil, n, http.StatusBadRequest, err
	}
	if !set.Empty() && !ask.IncludeStop && !ask.NoStopTrim {
		return nil, n, http.StatusBadRequest, fmt.Errorf("the stop string would be taken out of the response")
	}
	matched := ""
	matcher, decoder := set.Matcher(), l.chat.Tokenizer().NewByteDecoder()
	completions, err := l.engine.Generate(r.Context(), []policy.Request{{
		Prompt: ask.Prompt, MaxNewTokens: ask.MaxTokens, StopTokens: stops, Stream: stream,
		Sampling: policy.Sampling{Temperature: *ask.Temperature, TopK: ask.TopK, TopP: *ask.TopP},
		Watch: func(response []int32) bool {
			match, found := matcher.Write(decoder.Write(response[len(response)-1]))
			matched = match.Stop
			return found
		},
	}})
	if err != nil {
		return nil, n, http.StatusInternalServerError, err
	}
	return s.word(ask, l.chat.Tokenizer(), completions[0], matched, chat), n, 0, nil
}

// word puts a completion into the dialect's form.
// matched is the stop string at which it ended, if one did.
func (s *Server) word(ask request, tok *tokenizer.Tokenizer, c policy.Completion, matched string, chat bool) map[string]any {
	shown := c.TokenIDs
	if c.FinishReason == policy.FinishStop && matched == "" {
		shown = shown[:len(shown)-1]
	}
	choice := map[string]any{"index": 0, "finish_reason": string(c.FinishReason)}
	if chat {
		choice["message"] = map[string]any{"role": "assistant", "content": tok.Decode(shown)}
	} else {
		choice["text"] = tok.Decode(shown)
	}
	if len(ask.LogProbs) > 0 {
		choice["logprobs"] = s.logProbs(ask, tok, c, chat)
	}
	answer := map[string]any{
		"id": "cmpl-" + strconv.FormatInt(ask.Seed, 10), "model": ask.Model, "choices": []any{choice},
		"usage": map[string]any{
			"prompt_tokens": len(ask.Prompt), "completion_tokens": len(c.TokenIDs), "total_tokens": len(ask.Prompt) + len(c.TokenIDs),
		},
	}
	if ask.ReturnTokenIDs && (s.Dialect == "vllm" || s.Dialect == "sglang") {
		choice["token_ids"] = c.TokenIDs
		if chat && s.Dialect == "vllm" {
			answer["prompt_token_ids"] = ask.Prompt
		} else {
			choice["prompt_token_ids"] = ask.Prompt
		}
	}
	if c.FinishReason == policy.FinishStop {
		var reason any = c.TokenIDs[len(c.TokenIDs)-1]
		if matched != "" {
			reason = matched
		}
		switch s.Dialect {
		case "sglang":
			choice["matched_stop"] = reason
		case "vllm":
			choice["stop_reason"] = reason
		}
	}
	return answer
}

// logProbs is the form of chat for chat and for llama.cpp, else the two lists
// of completions.
func (s *Server) logProbs(ask request, tok *tokenizer.Tokenizer, c policy.Completion, chat bool) map[string]any {
	content, tokens, values := []any{}, []string{}, []float32{}
	pending := "" // llama.cpp has no entry for a token that ends inside a character
	for i, id := range c.TokenIDs {
		text := tok.Piece(id)
		entry := map[string]any{"token": text, "bytes": []byte(text), "logprob": c.LogProbs[i], "top_logprobs": []any{}}
		if s.Dialect == "llama.cpp" {
			if pending += text; !utf8.ValidString(pending) {
				continue
			}
			pending = ""
			entry["id"] = id
		}
		if s.Dialect == "vllm" && ask.AsTokenIDs {
			text = "token_id:" + strconv.Itoa(int(id))
			entry["token"] = text
		}
		content, tokens, values = append(content, entry), append(tokens, text), append(values, c.LogProbs[i])
	}
	if chat || s.Dialect == "llama.cpp" {
		return map[string]any{"content": content}
	}
	return map[string]any{"tokens": tokens, "token_logprobs": values, "text_offset": []int{}, "top_logprobs": nil}
}

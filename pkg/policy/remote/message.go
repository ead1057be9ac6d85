package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// onlyText is the answer of /v1/chat/completions where nothing else of it is
// wanted.
type onlyText struct {
	Choices []struct {
		Message struct {
			Content *string `json:"content"`
		} `json:"message"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
}

// Message asks a server with OpenAI's interface for the most probable answer to
// a conversation, of at most maxNewTokens tokens. Of the options it takes the
// address, the model, the key, and how patiently it is asked. cut says that the
// answer ended at the bound. A server that refuses, or gives no answer by the
// last try, is an error.
func Message(ctx context.Context, o Options, messages []shard.Message, maxNewTokens int) (text string, cut bool, err error) {
	c, err := newClient(o)
	if err != nil {
		return "", false, err
	}
	defer c.http.CloseIdleConnections()
	posted, err := json.Marshal(map[string]any{"model": c.o.Model, "messages": messagesOf(messages), "temperature": 0, "max_tokens": maxNewTokens})
	if err != nil {
		return "", false, exitcode.Bugf("encoding a request: %w", err)
	}
	stream := rng.New(0, rng.PurposeSample, 0, "waiting between requests for messages", 0)
	_, failed, err := c.insist(ctx, stream, func() *fault {
		answered, failed := c.call(ctx, http.MethodPost, "/v1/chat/completions", posted, answerBytes+responseTokenBytes*maxNewTokens)
		if failed != nil {
			return failed
		}
		var a onlyText
		if err := json.Unmarshal(answered, &a); err != nil || len(a.Choices) != 1 || a.Choices[0].Message.Content == nil {
			return &fault{err: errors.New("/v1/chat/completions: the answer is not a single message with a text")}
		}
		text, cut = *a.Choices[0].Message.Content, a.Choices[0].FinishReason == "length"
		return nil
	})
	if err == nil && failed != nil {
		err = exitcode.Unavailablef("%w", failed)
	}
	if err != nil {
		return "", false, fmt.Errorf("asking %s for a message: %w", c.base, err)
	}
	return text, cut, nil
}

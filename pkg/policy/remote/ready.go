package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Between two looks at a server that is starting.
const (
	firstLook   = 50 * time.Millisecond
	longestLook = 2 * time.Second
	lookTimeout = 10 * time.Second
	modelsBytes = 4 << 20
	versionHint = "start the server on the new version in each iteration (rollout.remote.serve does so in each task), or pin rollout.remote.model and accept stale responses (the report shows the gap between sampler and learner)"
	readyHint   = "rollout.remote.ready_seconds limits the wait; %s"
)

// servedModel is one entry of /v1/models.
type servedModel struct {
	ID          string `json:"id"`
	Root        string `json:"root"` // vLLM and SGLang: where it was loaded from
	MaxModelLen int    `json:"max_model_len"`
}

// waitUntilReady looks at the server until it serves the policy, refuses, or
// the time for that is over.
func (c *Client) waitUntilReady(ctx context.Context, alive func() error) error {
	deadline := time.Now().Add(c.o.Ready)
	patient := *c
	if patient.o.Timeout > lookTimeout {
		patient.o.Timeout = lookTimeout // of one look
	}
	for wait := firstLook; ; wait = min(2*wait, longestLook) {
		failed := patient.look(ctx)
		if failed == nil {
			c.model, c.longest = patient.model, patient.longest
			return nil
		}
		if err := alive(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("waiting for %s: %w", c.base, ctx.Err())
		}
		if failed.permanent {
			return failed.err
		}
		if time.Until(deadline) < wait {
			var stale *staleError
			if errors.As(failed.err, &stale) {
				return exitcode.WithHint(exitcode.Unavailablef("%s, even after %s", stale, c.o.Ready), versionHint)
			}
			err := exitcode.Unavailablef("%s is not ready after %s: %w", c.base, c.o.Ready, failed.err)
			return exitcode.WithHint(err, readyHint, "check rollout.remote.url, the server's address")
		}
		rest(ctx, wait)
	}
}

// look asks once whether the server is up and what it serves.
func (c *Client) look(ctx context.Context) *fault {
	if _, failed := c.call(ctx, http.MethodGet, "/health", nil, 0); failed != nil && !failed.missing {
		return failed
	}
	body, failed := c.call(ctx, http.MethodGet, "/v1/models", nil, modelsBytes)
	if failed != nil {
		return failed
	}
	var listed struct {
		Data []servedModel `json:"data"`
	}
	if err := json.Unmarshal(body, &listed); err != nil {
		return &fault{err: fmt.Errorf("/v1/models: %w", err)}
	}
	served, found := c.choose(listed.Data)
	if !found {
		return &fault{err: &staleError{base: c.base, served: listed.Data, wanted: c.wanted()}}
	}
	c.model = served.ID
	if served.MaxModelLen > 0 {
		c.longest = min(c.longest, served.MaxModelLen)
	}
	if c.o.Server == LlamaCpp {
		return c.lookAtContext(ctx)
	}
	return nil
}

// lookAtContext asks llama.cpp how many tokens a sequence may have.
func (c *Client) lookAtContext(ctx context.Context) *fault {
	body, failed := c.call(ctx, http.MethodGet, "/props", nil, modelsBytes)
	if failed != nil {
		return failed
	}
	var properties struct {
		Defaults struct {
			Context int `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}
	if err := json.Unmarshal(body, &properties); err != nil {
		return &fault{err: fmt.Errorf("/props: %w", err)}
	}
	if n := properties.Defaults.Context; n > 0 {
		c.longest = min(c.longest, n)
	}
	return nil
}

// wanted is what the list of served models must hold.
func (c *Client) wanted() string {
	if c.o.Model != "" {
		return c.o.Model
	}
	return filepath.Base(filepath.Clean(c.o.Folder))
}

// choose finds the model to ask for: the one that is pinned, or the one whose
// name or origin ends in the policy's folder.
func (c *Client) choose(served []servedModel) (servedModel, bool) {
	for _, m := range served {
		if c.o.Model != "" {
			if m.ID == c.o.Model {
				return m, true
			}
			continue
		}
		if c.isPolicy(m.ID) || m.Root != "" && c.isPolicy(m.Root) {
			return m, true
		}
	}
	return servedModel{}, false
}

// isPolicy reports whether a name or path ends in the name of the policy's
// folder and, if it is a folder that we can see, is that folder: another run
// has a version of the same number.
func (c *Client) isPolicy(name string) bool {
	name = filepath.Clean(name)
	if strings.TrimSuffix(filepath.Base(name), ".gguf") != c.wanted() {
		return false
	}
	theirs, err := os.Stat(name)
	if err != nil || !theirs.IsDir() || !filepath.IsAbs(name) {
		return true
	}
	ours, err := os.Stat(c.o.Folder)
	return err != nil || os.SameFile(theirs, ours)
}

// staleError reports a server that serves something else.
type staleError struct {
	base, wanted string
	served       []servedModel
}

func (e *staleError) Error() string {
	names := make([]string, len(e.served))
	for i, m := range e.served {
		names[i] = m.ID
		if m.Root != "" && m.Root != m.ID {
			names[i] += " (" + m.Root + ")"
		}
	}
	if len(names) == 0 {
		names = []string{"nothing"}
	}
	return fmt.Sprintf("%s serves %s, not %s", e.base, strings.Join(names, ", "), e.wanted)
}

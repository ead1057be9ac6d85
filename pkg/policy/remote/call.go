package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/rng"
)

const (
	dialTimeout    = 10 * time.Second
	longestBackoff = time.Minute
	// shownText is how much of a server's own text an error repeats.
	shownText = 400
	// What an answer may be long: a fixed part, and so much for each token of
	// the prompt, which may be echoed, and of the response, which comes with
	// its text, its id and its log-probability.
	answerBytes, promptTokenBytes, responseTokenBytes = 256 << 10, 64, 1 << 10
)

// errDeadline is the cause of a context that ends with [Options.Deadline].
var errDeadline = errors.New("the deadline of the task has passed")

func newTransport(connections int) *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   dialTimeout,
		MaxConnsPerHost:       max(1, connections) + 1,
		MaxIdleConnsPerHost:   max(1, connections) + 1,
		IdleConnTimeout:       30 * time.Second,
		ExpectContinueTimeout: time.Second,
		ForceAttemptHTTP2:     true,
	}
}

// fault is why one try gave no answer.
type fault struct {
	err       error
	permanent bool          // no other try will do better
	missing   bool          // the server does not know the path
	after     time.Duration // what the server asks to wait; 0 for nothing
}

func (f *fault) Error() string { return f.err.Error() }

// ask tries for an answer to one turn until it has one, the server refuses,
// or the tries are used up.
func (c *Client) ask(ctx context.Context, turn Turn) (Reply, error) {
	if c.maxTokens(turn.Request) < 1 {
		return Reply{Completion: emptyCompletion()}, nil
	}
	posted, err := json.Marshal(c.body(turn))
	if err != nil {
		return Reply{}, exitcode.Bugf("encoding a request: %w", err)
	}
	limit := answerBytes + promptTokenBytes*len(turn.Prompt) + responseTokenBytes*c.maxTokens(turn.Request)
	path := "/v1/completions"
	if c.o.API == Chat {
		path = "/v1/chat/completions"
	}
	var reply Reply
	tries, failed, err := c.insist(ctx, turn.Stream, func() *fault {
		answered, failed := c.call(ctx, http.MethodPost, path, posted, limit)
		if failed == nil {
			reply, failed = c.read(turn, answered)
		}
		return failed
	})
	if err != nil {
		return Reply{}, err
	}
	if failed != nil {
		return Reply{Tries: tries, Failed: failed}, nil
	}
	reply.Tries = tries
	return reply, nil
}

// insist makes a try until one does not fail. failed says why there is no answer
// although every try was made; err, that none can be had: the server refuses what
// it is asked, or ctx is over. The stream spreads the waits.
func (c *Client) insist(ctx context.Context, stream rng.Stream, once func() *fault) (tries int, failed, err error) {
	for try := 0; ; try++ {
		if ctx.Err() != nil {
			return overdue(ctx, try)
		}
		failed := once()
		switch {
		case failed == nil:
			return try + 1, nil, nil
		case ctx.Err() != nil:
			return overdue(ctx, try+1)
		case failed.permanent:
			return try + 1, nil, failed.err
		case try >= c.o.Retries:
			return try + 1, fmt.Errorf("after %d attempts: %w", try+1, failed.err), nil
		}
		if c.o.Log != nil && try == 0 {
			c.o.Log("%s: %v; retrying", c.base, failed.err)
		}
		until, bounded := ctx.Deadline()
		if !bounded { // else the server could have us wait for ever
			failed.after = min(failed.after, longestBackoff)
		}
		wait := max(pause(stream, try, c.o.Backoff), failed.after)
		if bounded && time.Until(until) < wait {
			return try + 1, fmt.Errorf("%w, and the next attempt would be after the deadline", failed.err), nil
		}
		rest(ctx, wait)
	}
}

// rest waits for a time, or until ctx is over.
func rest(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// overdue is the end of a request whose context is over: a failure when that is
// by our own deadline, else the context's error.
func overdue(ctx context.Context, tries int) (_ int, failed, err error) {
	if errors.Is(context.Cause(ctx), errDeadline) {
		return tries, fmt.Errorf("after %d attempts: %w", tries, errDeadline), nil
	}
	return tries, nil, ctx.Err()
}

// pause is the wait before retry number try, from 0: exponential, and spread
// by up to a half, so that requests that failed together do not return
// together. It is drawn from the request's stream, which no result depends on.
func pause(stream rng.Stream, try int, first time.Duration) time.Duration {
	wait := longestBackoff
	if try < 20 {
		wait = min(wait, first<<try)
	}
	return time.Duration(float64(wait) * (0.5 + 0.5*stream.Float64(retryPosition+uint64(try))))
}

// call makes one request and returns the body of a successful answer, which
// is JSON of at most limit bytes; with limit 0 it is not looked at.
func (c *Client) call(ctx context.Context, method, path string, posted []byte, limit int) ([]byte, *fault) {
	attempt, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(attempt, method, c.base+path, bytes.NewReader(posted))
	if err != nil {
		return nil, &fault{err: exitcode.Usagef("asking %s: %w", c.base+path, err), permanent: true}
	}
	request.Header.Set("Accept", "application/json")
	if posted != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.o.Key != "" {
		request.Header.Set("Authorization", "Bearer "+c.o.Key)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.refused(attempt, path, err)
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))
		return nil, c.answeredError(path, response, text)
	}
	if limit == 0 {
		return nil, nil
	}
	if !isJSON(response.Header) {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10))
		return nil, &fault{err: fmt.Errorf("%s: the answer is %q and not JSON: %s", path, response.Header.Get("Content-Type"), errorText(text))}
	}
	if response.ContentLength > int64(limit) {
		return nil, &fault{err: fmt.Errorf("%s: the answer has %d bytes, want at most %d", path, response.ContentLength, limit)}
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, int64(limit)+1))
	switch {
	case err != nil:
		return nil, c.refused(attempt, path, fmt.Errorf("reading the answer: %w", err))
	case len(body) > limit:
		return nil, &fault{err: fmt.Errorf("%s: the answer has more than %d bytes", path, limit)}
	}
	return body, nil
}

// refused classifies a request that got no answer.
func (c *Client) refused(attempt context.Context, path string, err error) *fault {
	if errors.Is(err, context.DeadlineExceeded) && attempt.Err() != nil {
		return &fault{err: fmt.Errorf("%s: no answer within %s", path, c.o.Timeout)}
	}
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var record tls.RecordHeaderError
	if errors.As(err, &certificate) || errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &record) ||
		strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		return &fault{err: exitcode.Unavailablef("%s%s: %w", c.base, path, err), permanent: true}
	}
	return &fault{err: fmt.Errorf("%s: %w", path, err)}
}

// answeredError classifies an answer that is an error.
func (c *Client) answeredError(path string, response *http.Response, text []byte) *fault {
	code := response.StatusCode
	said := errorText(text)
	if code/100 == 3 {
		said = "it redirects to " + response.Header.Get("Location")
	}
	f := &fault{
		err: fmt.Errorf("%s: %s: %s", path, response.Status, said), missing: code == http.StatusNotFound,
		after: retryAfter(response.Header.Get("Retry-After")),
	}
	switch code {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return f
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		f.permanent = true
	default:
		f.permanent = code < 500
	}
	if f.permanent {
		f.err = exitcode.Unavailablef("%s rejects the request: %w", c.base, f.err)
		switch code {
		case http.StatusUnauthorized, http.StatusForbidden:
			f.err = exitcode.WithHint(f.err, "%s.api_key_env names the environment variable that holds the server's key", c.section())
		case http.StatusNotFound:
			f.err = exitcode.WithHint(f.err, "check url and model in %s: the server lists its models at %s/v1/models", c.section(), c.base)
		}
	}
	return f
}

// errorText finds the message in a server's error, or gives the beginning of
// what it said.
func errorText(body []byte) string {
	var parsed struct {
		Error   json.RawMessage `json:"error"`   // vLLM, llama.cpp: an object
		Message string          `json:"message"` // SGLang
		Detail  json.RawMessage `json:"detail"`  // FastAPI
	}
	text := strings.TrimSpace(string(body))
	if json.Unmarshal(body, &parsed) == nil {
		var inner struct {
			Message string `json:"message"`
		}
		switch {
		case json.Unmarshal(parsed.Error, &inner) == nil && inner.Message != "":
			text = inner.Message
		case parsed.Message != "":
			text = parsed.Message
		case len(parsed.Error) > 0:
			text = string(parsed.Error)
		case len(parsed.Detail) > 0:
			text = string(parsed.Detail)
		}
	}
	if text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " "); text == "" {
		return "(no message)"
	}
	if runes := []rune(text); len(runes) > shownText {
		text = string(runes[:shownText]) + "…"
	}
	return text
}

// retryAfter reads the header of that name: seconds, or a date.
func retryAfter(value string) time.Duration {
	if seconds, err := strconv.Atoi(value); err == nil && seconds > 0 {
		return time.Duration(min(seconds, 24*60*60)) * time.Second
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(0, time.Until(date))
	}
	return 0
}

// isJSON reports whether a body was declared to be JSON.
func isJSON(header http.Header) bool {
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	return err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json"))
}

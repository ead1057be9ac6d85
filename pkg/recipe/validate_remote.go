package recipe

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
)

// remoteSchemes begin an address that names no environment variable.
var remoteSchemes = []string{"http://", "https://", "file:"}

var environmentName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (r *Recipe) checkRemote(c *config.Checker, o *Remote) {
	server := c.Choice("rollout.remote.server", o.Server)
	switch {
	case o.URL == "" && len(o.Serve) == 0:
		c.Add("rollout.remote", nil, "names no server: give rollout.remote.url or rollout.remote.serve")
	case o.URL != "" && len(o.Serve) > 0:
		c.Add("rollout.remote.url", o.URL, "must be empty when rollout.remote.serve is given")
	default:
		checkAddress(c, "rollout.remote", o.URL, o.APIKeyEnv, remoteSchemes)
	}
	if len(o.Serve) > 0 {
		checkServe(c, o.Serve)
	}
	if c.Choice("rollout.remote.api", o.API) && o.API == "chat" && (len(r.Policy.Template) > 0 || r.Policy.TemplateDate != "") {
		c.Add("rollout.remote.api", o.API, "lets the server apply its chat template, without policy.template and policy.template_date: use completions")
	}
	c.Choice("rollout.remote.logprobs", o.LogProbs)
	if server && o.Server == "openai" && r.Rollout.TopK > 0 {
		c.Add("rollout.remote.server", o.Server, "has no top-k: rollout.top_k must be 0")
	}
	c.Between("rollout.remote.concurrency", o.Concurrency, 1, 1<<14)
	c.Positive("rollout.remote.timeout_seconds", o.TimeoutSeconds)
	c.NotNegative("rollout.remote.task_seconds", o.TaskSeconds)
	c.NotNegative("rollout.remote.ready_seconds", o.ReadySeconds)
	c.Between("rollout.remote.retries", o.Retries, 0, 1000)
	c.Positive("rollout.remote.backoff_seconds", o.BackoffSeconds)
	if !(o.MaxFailed >= 0 && o.MaxFailed < 1) {
		c.Add("rollout.remote.max_failed", o.MaxFailed, "must be at least 0 and below 1")
	}
}

// checkAddress checks how a server is found. An empty address is another's concern.
func checkAddress(c *config.Checker, section, url, keyEnv string, schemes []string) {
	starts := func(scheme string) bool { return strings.HasPrefix(url, scheme) }
	switch {
	case config.HasUserinfo(url):
		// Not repeated: a password is in it.
		c.Add(section+".url", nil, "holds a user or a password, which would stand in logs: name the environment variable that has the key in %s.api_key_env", section)
	case url != "" && !slices.ContainsFunc(schemes, starts) && !strings.Contains(url, "$"):
		last := len(schemes) - 1
		c.Add(section+".url", url, "must begin with %s or %s, or name an environment variable by $NAME", strings.Join(schemes[:last], ", "), schemes[last])
	}
	if keyEnv != "" && !environmentName().MatchString(keyEnv) {
		// Not repeated: it may be the key itself.
		c.Add(section+".api_key_env", nil, "must be the name of an environment variable")
	}
}

// checkEndpoint checks the server of embeddings.
func (r *Recipe) checkEndpoint(c *config.Checker) {
	e := r.Score.Endpoint
	if e == nil {
		if r.Score.Embedding == EmbeddingEndpoint {
			c.Add("score.endpoint", nil, "must name the server for score.embedding endpoint")
		}
		return
	}
	if e.URL == "" {
		c.Add("score.endpoint.url", nil, "must not be empty")
	}
	checkAddress(c, "score.endpoint", e.URL, e.APIKeyEnv, remoteSchemes[:2])
	if e.Model == "" {
		c.Add("score.endpoint.model", nil, "must name the model that makes the embeddings")
	}
	c.Between("score.endpoint.batch", e.Batch, 1, 1<<12)
	c.AtLeast("score.endpoint.characters", e.Characters, 0)
	c.Between("score.endpoint.concurrency", e.Concurrency, 1, 1<<14)
	c.Positive("score.endpoint.timeout_seconds", e.TimeoutSeconds)
	c.Between("score.endpoint.retries", e.Retries, 0, 1000)
	c.Positive("score.endpoint.backoff_seconds", e.BackoffSeconds)
}

// checkAssistant checks the policy that environments ask for help.
func (r *Recipe) checkAssistant(c *config.Checker) {
	a := r.Score.Assistant
	if a == nil {
		return
	}
	switch {
	case (a.Policy == "") == (a.URL == ""):
		c.Add("score.assistant", nil, "must name either the folder of a policy or the url of a server")
	case a.Policy != "" && !filepath.IsAbs(a.Policy) && !strings.HasPrefix(a.Policy, "$"):
		c.Add("score.assistant.policy", a.Policy, "must be an absolute path, or begin with $NAME")
	case a.URL != "":
		checkAddress(c, "score.assistant", a.URL, a.APIKeyEnv, remoteSchemes[:2])
		if a.Model == "" {
			c.Add("score.assistant.model", nil, "must name the model that is asked")
		}
	}
	c.Choice("score.assistant.backend", a.Backend)
	c.AtLeast("score.assistant.max_new_tokens", a.MaxNewTokens, 1)
	c.Positive("score.assistant.timeout_seconds", a.TimeoutSeconds)
	c.Between("score.assistant.retries", a.Retries, 0, 1000)
	c.Positive("score.assistant.backoff_seconds", a.BackoffSeconds)
}

var serveWords = []string{"policy", "version", "port"}

// checkServe wants a command that names what differs from task to task.
func checkServe(c *config.Checker, command []string) {
	named := map[string]bool{}
	for i, word := range command {
		field := fmt.Sprintf("rollout.remote.serve.%d", i)
		if word == "" {
			c.Add(field, nil, "must not be empty")
		}
		for _, match := range braced().FindAllStringSubmatch(word, -1) {
			named[match[1]] = true
			if !slices.Contains(serveWords, match[1]) {
				c.Add(field, word, "has %s; {policy}, {version} and {port} can be replaced", match[0])
			}
		}
	}
	if !named["port"] {
		c.Add("rollout.remote.serve", nil, "must hold {port}: tasks of one node cannot share a port")
	}
	if !named["policy"] && !named["version"] {
		c.Add("rollout.remote.serve", nil, "must hold {policy} or {version}, or every iteration samples from the same policy")
	}
}

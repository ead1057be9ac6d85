package recipe

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
)

// remoteSchemes begin an address that names no environment variable.
var remoteSchemes = []string{"http://", "https://", "file:"}

var environmentName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (r *Recipe) checkRemote(c *config.Checker, o *Remote) {
	server := c.Choice("rollout.remote.server", o.Server)
	starts := func(scheme string) bool { return strings.HasPrefix(o.URL, scheme) }
	switch {
	case o.URL == "" && len(o.Serve) == 0:
		c.Add("rollout.remote", nil, "names no server: give rollout.remote.url or rollout.remote.serve")
	case o.URL != "" && len(o.Serve) > 0:
		c.Add("rollout.remote.url", o.URL, "must be empty when rollout.remote.serve is given")
	case config.HasUserinfo(o.URL):
		// Not repeated: a password is in it.
		c.Add("rollout.remote.url", nil, "holds a user or a password, which would stand in logs: name the environment variable that has the key in rollout.remote.api_key_env")
	case o.URL != "" && !slices.ContainsFunc(remoteSchemes, starts) && !strings.Contains(o.URL, "$"):
		c.Add("rollout.remote.url", o.URL, "must begin with http://, https:// or file:, or name an environment variable by $NAME")
	}
	if len(o.Serve) > 0 {
		checkServe(c, o.Serve)
	}
	c.Choice("rollout.remote.api", o.API)
	if o.APIKeyEnv != "" && !environmentName.MatchString(o.APIKeyEnv) {
		// Not repeated: it may be the key itself.
		c.Add("rollout.remote.api_key_env", nil, "must be the name of an environment variable")
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

var serveWords = []string{"policy", "version", "port"}

// checkServe wants a command that names what differs from task to task.
func checkServe(c *config.Checker, command []string) {
	named := map[string]bool{}
	for i, word := range command {
		field := fmt.Sprintf("rollout.remote.serve.%d", i)
		if word == "" {
			c.Add(field, nil, "must not be empty")
		}
		for _, match := range braced.FindAllStringSubmatch(word, -1) {
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

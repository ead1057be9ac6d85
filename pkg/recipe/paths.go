package recipe

import (
	"os"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Resolve gives the policy's folder as a path that can be opened
// ([config.ResolvePath]). It is empty for a policy made by the run.
func (p Policy) Resolve(folder string) (string, error) {
	if p.Path == "" {
		return "", nil
	}
	return config.ResolvePath(p.Path, folder)
}

// Resolve gives the address of the server with the environment's variables in
// it, and the server's key.
func (r *Remote) Resolve() (url, key string, err error) {
	url, missing := config.Expand(r.URL)
	if len(missing) > 0 {
		err := exitcode.Usagef("rollout.remote.url %q needs the environment variable %s, which is not set", r.URL, strings.Join(missing, " and "))
		return "", "", exitcode.WithHint(err, "export %s=http://HOST:PORT where the task runs", missing[0])
	}
	if config.HasUserinfo(url) {
		return "", "", exitcode.Usagef("rollout.remote.url holds a user or a password once its variables are in it: name the environment variable that has the key in rollout.remote.api_key_env")
	}
	if r.APIKeyEnv != "" {
		if key = os.Getenv(r.APIKeyEnv); key == "" {
			return "", "", exitcode.Usagef("rollout.remote.api_key_env names the environment variable %s, which is not set", r.APIKeyEnv)
		}
	}
	return url, key, nil
}

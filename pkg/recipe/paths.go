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

// ResolvePool gives the pool's path with the environment's variables in it, relative
// to a folder; empty for none.
func (w WarmStart) ResolvePool(folder string) (string, error) {
	if w.Pool == "" {
		return "", nil
	}
	return config.ResolvePath(w.Pool, folder)
}

// ResolveTeacher gives the teacher's folder as a path that can be opened, relative to a
// folder; empty for none.
func (r *Recipe) ResolveTeacher(folder string) (string, error) {
	if !r.Advantage.Teacher.Active() || r.Advantage.Teacher.Path == "" {
		return "", nil
	}
	return config.ResolvePath(r.Advantage.Teacher.Path, folder)
}

// Resolve gives the address of the server with the environment's variables in
// it, and the server's key.
func (r *Remote) Resolve() (url, key string, err error) {
	return resolveServer("rollout.remote", r.URL, r.APIKeyEnv)
}

// Resolve does so for the server of embeddings.
func (e *Endpoint) Resolve() (url, key string, err error) {
	return resolveServer("score.endpoint", e.URL, e.APIKeyEnv)
}

// Resolve does so for an assistant that is a server.
func (a *Assistant) Resolve() (url, key string, err error) {
	return resolveServer("score.assistant", a.URL, a.APIKeyEnv)
}

// Folder is that of an assistant that is a policy of ours.
func (a *Assistant) Folder() (string, error) { return config.ResolvePath(a.Policy, "") }

func resolveServer(section, named, keyEnv string) (url, key string, err error) {
	url, missing := config.Expand(named)
	if len(missing) > 0 {
		err := exitcode.Usagef("%s.url %q needs the environment variable %s, which is not set", section, named, strings.Join(missing, " and "))
		return "", "", exitcode.WithHint(err, "export %s=http://HOST:PORT where the task runs", missing[0])
	}
	if config.HasUserinfo(url) {
		return "", "", exitcode.Usagef("%[1]s.url holds a user or a password once its variables are in it: name the environment variable that has the key in %[1]s.api_key_env", section)
	}
	if keyEnv != "" {
		if key = os.Getenv(keyEnv); key == "" {
			return "", "", exitcode.Usagef("%s.api_key_env names the environment variable %s, which is not set", section, keyEnv)
		}
	}
	return url, key, nil
}

package learn

import (
	"reflect"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/stage/trainer"
)

// checkAdapter wants the policy to be an adapter of the recipe's shape, or a whole policy
// where the recipe has none.
func (u *update) checkAdapter() error {
	wanted, found := u.Policy.LoRA, u.models[0].Adapter()
	if wanted == nil && found == nil {
		return nil
	}
	if wanted == nil || found == nil {
		return exitcode.Usagef("policy %q: the recipe's policy.lora is %+v, and the folder's adapter is %+v", u.in.Policy, wanted, found)
	}
	lora, err := trainer.LoRAOf(*wanted).For(u.models[0].Config())
	if err == nil && !reflect.DeepEqual(*found, lora) {
		err = exitcode.Usagef("policy %q is an adapter of shape %+v, and the recipe's policy.lora is %+v", u.in.Policy, *found, *wanted)
	}
	return err
}

// writeRest writes what a model has beside its weights into the folder that will be to.
func (u *update) writeRest(m *model, to string) func(folder string) error {
	return func(folder string) error {
		if m.Adapter() == nil {
			return m.WriteRest(folder, "")
		}
		base := u.in.Base
		if base == "" {
			var err error
			if base, err = checkpoint.AdapterBase(m.folder); err != nil {
				return err
			}
		}
		named, err := trainer.Relative(to, base)
		if err != nil {
			return err
		}
		return m.WriteRest(folder, named)
	}
}

package verify

import (
	"errors"
	"fmt"

	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// lineage follows the run to those that it started from, as far as they are there. What
// the run took over from them is its own, so that it does not need them.
func (v *verifier) lineage() {
	for o := v.run.Identity.Origin; o != nil; o = o.From {
		path := graph.Dir(o.Run).Policy(o.Version)
		m, err := seal.Record(v.ctx, path)
		switch {
		case errors.Is(err, seal.ErrNotSealed):
			v.result.Lineage = append(v.result.Lineage, fmt.Sprintf("%s; it is not there any more", o))
		case err != nil:
			v.fault(Fault{Path: path, Problem: err.Error(), Mend: "restore it from a copy"})
		case m.ContentSHA256 != o.PolicySHA256:
			v.fault(Fault{
				Path: path, Problem: fmt.Sprintf("it is not what the run started from: content sha256 %s, was %s", m.ContentSHA256, o.PolicySHA256),
				Mend: "nothing is wrong with this run, which has a copy; whoever changed the other knows",
			})
		default:
			v.result.Lineage = append(v.result.Lineage, o.String())
		}
	}
}

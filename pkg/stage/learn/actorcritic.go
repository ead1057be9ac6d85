package learn

import (
	"context"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/stage/trainer"
)

// trained is what a learner wants of what it trains ([policy.Engine]).
type trained interface {
	adder
	Forward(batch policy.Batch, sampling policy.Sampling, logProbs, entropy []float32) error
	Values(dst []float32) error
	Backward(coefficients policy.Coefficients) error
	Trained() []policy.Tensor
	ZeroGradients()
	WriteGradient(index, from int, values []float32) error
	ReadSum(sum, index, from int, dst []float32) error
	Room(groups [][]int) int
}

// actorCritic is a policy and a critic that is a model of its own. They see the
// same batches; gradients are those of the policy's tensors and then of the
// critic's.
type actorCritic struct {
	*policy.Engine // the policy
	critic         *policy.Engine
}

// criticPrefix stands before the names of the critic's tensors.
const criticPrefix = "critic."

func (e actorCritic) Forward(batch policy.Batch, sampling policy.Sampling, logProbs, entropy []float32) error {
	if err := e.Engine.Forward(batch, sampling, logProbs, entropy); err != nil {
		return err
	}
	n := len(batch.TokenIDs)
	return e.critic.Forward(batch, sampling, make([]float32, n), make([]float32, n))
}

func (e actorCritic) Values(dst []float32) error { return e.critic.Values(dst) }

func (e actorCritic) Backward(c policy.Coefficients) error {
	values := policy.Coefficients{Value: c.Value}
	c.Value = nil
	if err := e.Engine.Backward(c); err != nil {
		return err
	}
	return e.critic.Backward(values)
}

func (e actorCritic) Trained() []policy.Tensor {
	all := e.Engine.Trained()
	for _, t := range e.critic.Trained() {
		t.Name = criticPrefix + t.Name
		all = append(all, t)
	}
	return all
}

func (e actorCritic) ZeroGradients() {
	e.Engine.ZeroGradients()
	e.critic.ZeroGradients()
}

func (e actorCritic) HoldGradients(sum int) error {
	if err := e.Engine.HoldGradients(sum); err != nil {
		return err
	}
	return e.critic.HoldGradients(sum)
}

func (e actorCritic) AddGradients(sum int) error {
	if err := e.Engine.AddGradients(sum); err != nil {
		return err
	}
	return e.critic.AddGradients(sum)
}

// of is the engine that has a tensor of Trained, and the tensor's number there.
func (e actorCritic) of(index int) (policy.Sums, int) {
	if own := len(e.Engine.Trained()); index >= own {
		return e.critic, index - own
	}
	return e.Engine, index
}

func (e actorCritic) WriteGradient(index, from int, values []float32) error {
	engine, own := e.of(index)
	return engine.WriteGradient(own, from, values)
}

func (e actorCritic) ReadSum(sum, index, from int, dst []float32) error {
	engine, own := e.of(index)
	return engine.ReadSum(sum, own, from, dst)
}

func (e actorCritic) Room(groups [][]int) int {
	return min(e.Engine.Room(groups), e.critic.Room(groups))
}

// openCritic opens the critic that is a model of its own, which at first is the
// policy with a value head that says 0.
func (l *learner) openCritic(ctx context.Context, workload policy.Workload) error {
	if l.in.Critic != l.in.Policy {
		if err := l.citePolicy(ctx, l.in.Critic); err != nil {
			return err
		}
	}
	workload.Twins = 0 // the last of them
	var err error
	if l.critic, _, err = trainer.OpenTrained(l.Policy.OfCritic(), l.Seed, l.process, l.Optimizer, l.in.Critic, workload); err != nil {
		return err
	}
	l.trained = actorCritic{l.engine, l.critic}
	if l.in.CriticOptimizer == "" {
		return nil
	}
	return l.loadOptimizer(ctx, l.critic, l.in.CriticOptimizer)
}

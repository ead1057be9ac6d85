package recipe

import "time"

// Date is template_date; the zero time for none.
func (p Policy) Date() (time.Time, error) {
	if p.TemplateDate == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.DateOnly, p.TemplateDate)
}

// The kinds of a critic.
const (
	CriticNone  = "none"
	CriticHead  = "head"
	CriticModel = "model"
)

// ValueHead reports whether the policy that is trained has a value head.
func (p Policy) ValueHead() bool { return p.Critic == CriticHead }

// OfCritic is a critic that is a model of its own, as a policy that is trained.
func (p Policy) OfCritic() Policy {
	p.Critic = CriticHead
	return p
}

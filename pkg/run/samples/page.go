package samples

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"

	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/webpage"
)

//go:embed page.html
var pageTemplate string

// Page shows groups as one self-contained page. Tokens are the darker the less likely they
// were. note is that of AdvantageNote.
func Page(title, note string, groups []Group) ([]byte, error) {
	return webpage.Render(pageTemplate, struct {
		Title, Note string
		Groups      []Group
	}{title, note, groups})
}

// AdvantageNote says what an advantage that is shown lacks of the one that was learned
// from; it is empty where that is nothing.
func AdvantageNote(s credit.AdvantageSettings) string {
	switch {
	case s.Critic():
		return "advantages are those of the batch: the learner replaces them by the critic's (advantage.name gae)"
	case s.Teacher.Active():
		return "advantages are those of the batch: the learner adds the teacher's (advantage.teacher)"
	}
	return ""
}

// darkest is the surprise, in nats, from which a token is as dark as any.
const darkest = 6

// Shade is the background of a piece: none for what the policy read.
func (p Piece) Shade() template.CSS {
	if !p.Own {
		return ""
	}
	return template.CSS(fmt.Sprintf("background:rgba(214,96,20,%.2f)", 0.75*math.Min(1, -p.LogProb/darkest)))
}

// Tip is what pointing at a piece shows.
func (p Piece) Tip() string {
	if !p.Own {
		return "read by the policy"
	}
	text := fmt.Sprintf("p = %.3f", math.Exp(p.LogProb))
	if p.Learned {
		text += fmt.Sprintf(", advantage %+.3f", p.Advantage)
	}
	return text
}

// Text is what the policy wrote in a response, and read in between.
func (r Response) Text() string {
	text := ""
	for i, c := range r.Contexts {
		if i > 0 {
			text += "\n— new context —\n"
		}
		for _, p := range c.Pieces {
			text += p.Text
		}
	}
	return text
}

// Learned is the mean advantage of the tokens that are learned from, and how many there
// are.
func (r Response) Learned() (advantage float64, tokens int) {
	for _, c := range r.Contexts {
		for _, p := range c.Pieces {
			if p.Learned {
				advantage, tokens = advantage+p.Advantage*float64(p.Tokens), tokens+p.Tokens
			}
		}
	}
	return advantage / float64(max(1, tokens)), tokens
}

// Surprise is the mean negative log-probability of the policy's tokens, in nats.
func (r Response) Surprise() float64 {
	sum, own := 0.0, 0
	for _, c := range r.Contexts {
		for _, p := range c.Pieces {
			if p.Own {
				sum, own = sum-p.LogProb, own+p.Tokens
			}
		}
	}
	return sum / float64(max(1, own))
}

// Summary is a response's numbers in words.
func (r Response) Summary() string {
	text := fmt.Sprintf("sample %d: reward %.4g", r.Sample, r.Reward)
	if len(r.Parts) > 1 {
		text += " ("
		for i, part := range r.Parts {
			if i > 0 {
				text += ", "
			}
			text += fmt.Sprintf("%s %.4g", part.Name, part.Value)
		}
		text += ")"
	}
	text += ", " + r.Outcome
	if r.Finish == "length" {
		text += ", cut off"
	}
	for _, disposition := range r.Dispositions {
		text += ", " + disposition
	}
	if advantage, tokens := r.Learned(); tokens > 0 {
		text += fmt.Sprintf(", advantage %+.3f over %s", advantage, plural.Count(tokens, "token"))
	}
	return text + fmt.Sprintf(", %.2f nats a token", r.Surprise())
}

// Summary is a group's numbers in words.
func (g Group) Summary() string {
	text := fmt.Sprintf("%s, task %s, %s by %s: mean reward %.4g ± %.4g, %.0f tokens", g.InstanceID, g.TaskID, g.Kind, g.SelectedBy, g.Reward, g.Deviation, g.Tokens)
	if g.Answer != "" {
		text += ", reference answer " + g.Answer
	}
	return text
}

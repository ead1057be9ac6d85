package reproduce

import (
	"context"
	"errors"

	"github.com/lathe-rl/lathe/pkg/measure"
)

// take has what is measured of a run.
func (r *Run) take(ctx context.Context, rows *measure.Rows, measures []Measure) error {
	s, err := rows.Summary(ctx)
	if err != nil {
		return err
	}
	r.RecipeSHA256, r.BinaryVersion, r.Done = s.RecipeSHA256, s.BinaryVersion, s.State == "done"
	if s.WallSeconds != nil {
		r.WallSeconds = *s.WallSeconds
	}
	if !r.Done {
		return nil
	}
	r.PolicySHA256 = s.PolicySHA256
	if r.Timeouts, err = rows.Timeouts(ctx); err != nil {
		return err
	}
	r.Measures, r.Lacking = map[string]float64{}, map[string]string{}
	for _, m := range measures {
		if m.AtEqual != "" {
			if err := r.curve(ctx, rows, m); err != nil {
				return err
			}
			continue
		}
		over, err := m.over()
		if err != nil {
			return err
		}
		key := m.key()
		value, happened, err := rows.Number(ctx, m.Metric, over)
		if errors.Is(err, measure.ErrUnmeasured) {
			r.Lacking[key] = err.Error()
			continue
		}
		if err != nil {
			return err
		}
		r.Measures[key] = value
		if !happened {
			r.Never = append(r.Never, key)
		}
	}
	return nil
}

package stack

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// policies are the attributes of a resource by which CloudFormation waits after its handler is done.
type policies struct {
	creation map[string]any // CreationPolicy
	update   map[string]any // UpdatePolicy
}

// policiesOf returns the policies of a resource in the revision that the stack goes to.
func (p *pass) policiesOf(ctx context.Context, id string) (policies, error) {
	b, _, err := p.bind(ctx, p.state.Value.Current)
	if err != nil {
		return policies{}, err
	}
	held, release, err := p.evaluating(ctx)
	if err != nil {
		return policies{}, err
	}
	defer release()
	creation, update, err := b.Policies(held, id, &known{pass: p, ctx: held})
	if err != nil {
		return policies{}, err
	}
	var all policies
	all.creation, _ = creation.(map[string]any)
	all.update, _ = update.(map[string]any)
	return all, nil
}

// hasPolicy reports whether something follows what a handler has done.
func (p *pass) hasPolicy(ctx context.Context, row store.Row[record.StackResource]) (bool, error) {
	w := row.Value.Work
	if w.Action != record.ResourceCreate && w.Action != record.ResourceUpdate || p.state.Value.Current == "" {
		return false, nil
	}
	all, err := p.policiesOf(ctx, row.Value.LogicalID)
	if err != nil {
		return false, err
	}
	if w.Action == record.ResourceCreate {
		return all.creation["ResourceSignal"] != nil, nil
	}
	return all.update["AutoScalingRollingUpdate"] != nil && needsRollingUpdate(*row.Value.Live, w.Target), nil
}

// followPolicy does what follows the work of a handler.
func (p *pass) followPolicy(ctx context.Context, row store.Row[record.StackResource]) outcome {
	all, err := p.policiesOf(ctx, row.Value.LogicalID)
	if err != nil {
		return outcome{err: err}
	}
	if row.Value.Work.Action == record.ResourceUpdate {
		return p.rollGroup(ctx, row, all.update)
	}
	wanted, _ := all.creation["ResourceSignal"].(map[string]any)
	scaling, _ := all.creation["AutoScalingCreationPolicy"].(map[string]any)
	count := numberOf(wanted["Count"], 1)
	percent := numberOf(scaling["MinSuccessfulInstancesPercent"], 100)
	timeout := durationOf(wanted["Timeout"], 5*time.Minute)
	required := share(count, percent)
	s, o, err := p.receive(ctx, row, nil)
	switch {
	case err != nil:
		return outcome{err: err}
	case o != nil:
		return *o
	case s.failures > count-required:
		return p.endFailed(ctx, row, fmt.Sprintf("Received %d FAILURE signal(s) out of %d. Unable to satisfy %d%% "+
			"MinSuccessfulInstancesPercent requirement", s.failures, count, percent), resource.Result{})
	case s.successes >= required:
		return p.endDone(ctx, row)
	case p.c.now().Sub(row.Value.Work.Since) >= timeout:
		return p.endFailed(ctx, row, fmt.Sprintf("Failed to receive %d resource signal(s) within the specified duration",
			required-s.successes), resource.Result{})
	}
	return p.waitForSignals(row, row.Value.Work.Since.Add(timeout))
}

// waitForSignals returns when to look for signals again.
func (p *pass) waitForSignals(row store.Row[record.StackResource], end time.Time) outcome {
	p.c.setWait(p.key, row.Value.LogicalID, max(end.Sub(p.c.now()), time.Millisecond), false)
	return outcome{after: max(p.c.dueIn(p.key, row.Value.LogicalID), time.Millisecond)}
}

// share returns a percentage of a number, rounded up.
func share(number, percent int) int { return int(math.Ceil(float64(number) * float64(percent) / 100)) }

// received is how many signals a resource has.
type received struct{ successes, failures int }

// signalsOf returns the signals of a resource but those of ignored instances.
func (p *pass) signalsOf(ctx context.Context, id string, ignored []string) ([]store.Row[record.StackSignal], error) {
	rows, err := p.c.signals.List(ctx, store.Prefix(p.stack.Account, p.stack.Region, p.stack.ID, id))
	return slices.DeleteFunc(rows, func(r store.Row[record.StackSignal]) bool {
		return slices.Contains(ignored, r.Value.UniqueID)
	}), err
}

// receive counts the signals of a resource, and records events of new ones. With an outcome, others may go on first.
func (p *pass) receive(ctx context.Context, row store.Row[record.StackResource], ignored []string) (
	received, *outcome, error) {
	rows, err := p.signalsOf(ctx, row.Value.LogicalID, ignored)
	if err != nil {
		return received{}, nil, err
	}
	var s received
	var events []record.StackEvent
	w := *row.Value.Work
	w.Policy = maps.Clone(w.Policy)
	if w.Policy == nil {
		w.Policy = map[string]string{}
	}
	for _, signal := range rows {
		status := "FAILURE"
		if signal.Value.Success {
			status = "SUCCESS"
			s.successes++
		} else {
			s.failures++
		}
		if key := "signal/" + signal.Value.UniqueID; w.Policy[key] == "" {
			w.Policy[key] = status
			events = append(events, resourceEvent(row.Value.LogicalID, w.Target, statusOf(w),
				fmt.Sprintf("Received %s signal with UniqueId %s", status, signal.Value.UniqueID)))
		}
	}
	if len(events) == 0 {
		return s, nil, nil
	}
	row.Value.Work = &w
	_, err = p.save(ctx, row, events...)
	return s, &outcome{progress: true}, err
}

// removeSignals deletes the signals of what a resource was before.
func (p *pass) removeSignals(ctx context.Context, id string) error {
	rows, err := p.c.signals.List(ctx, store.Prefix(p.stack.Account, p.stack.Region, p.stack.ID, id))
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := p.c.store.Txn(ctx, p.c.signals.RemoveOp(row.Key)); err != nil {
			return err
		}
	}
	return nil
}

func numberOf(value any, byDefault int) int {
	var text string
	switch v := value.(type) {
	case json.Number:
		text = v.String()
	case string:
		text = v
	}
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	return byDefault
}

func boolOf(value any) bool {
	switch v := value.(type) {
	case bool:
		return v
	case string:
		return v == "true"
	}
	return false
}

// durationOf returns an ISO 8601 duration of hours, minutes and seconds: PT1H30M10S.
func durationOf(value any, byDefault time.Duration) time.Duration {
	text, ok := value.(string)
	if !ok || len(text) < 3 || text[:2] != "PT" {
		return byDefault
	}
	var total time.Duration
	number := ""
	for _, r := range text[2:] {
		unit := map[rune]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second}[r]
		if unit == 0 {
			number += string(r)
			continue
		}
		n, err := strconv.ParseFloat(number, 64)
		if err != nil || n < 0 || n > 1e6 {
			return byDefault
		}
		total, number = total+time.Duration(n*float64(unit)), ""
	}
	return total
}

//go:build linux

package logrouter

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/fargate/fluentbit"
)

// The most that rewrite_tag makes of a line: new tags of a record, one after the other, and records. Two filters that
// give each other's records new tags would go on for ever.
const (
	maxRewrites = 10
	maxRecords  = 100
)

// pipeline has the filters. One goroutine uses it.
type pipeline struct {
	filters   []fluentbit.Filter
	config    *fluentbit.Config
	throttles map[int]*throttle
	metadata  metadataSource
	now       func() time.Time
	log       *processLog
	warned    map[string]bool
}

func newPipeline(c *fluentbit.Config, metadata metadataSource, now func() time.Time, log *processLog) *pipeline {
	p := &pipeline{filters: c.Filters, config: c, throttles: map[int]*throttle{}, metadata: metadata, now: now, log: log,
		warned: map[string]bool{}}
	for i, f := range c.Filters {
		if f.Throttle != nil {
			p.throttles[i] = newThrottle(f.Throttle, now())
		}
	}
	return p
}

// process passes a record through the filters and returns what comes out: with rewrite_tag, more than one.
func (p *pipeline) process(r record) []record {
	queue, out := []record{r}, []record(nil)
	for len(queue) > 0 {
		r := queue[0]
		queue = queue[1:]
		keep := true
		for i := range p.filters {
			f := &p.filters[i]
			if !f.Match.Matches(r.tag) {
				continue
			}
			if f.RewriteTag != nil {
				if r.emitter == i+1 {
					continue // Fluent Bit's filter ignores what it has emitted itself
				}
				emitted, ok, keepOld := rewrite(f.RewriteTag, &r)
				if !ok {
					continue
				}
				if emitted.rewrites > maxRewrites || len(queue)+len(out) >= maxRecords {
					p.warnOnce("rewrite_tag", "the filters rewrite_tag give each other's records new tags without end")
					continue
				}
				emitted.emitter = i + 1
				queue = append(queue, emitted)
				if keep = keepOld; !keep {
					break
				}
				continue
			}
			before := r
			if keep = p.apply(i, f, &r); !keep {
				break
			}
			// Filters share values: a copy takes no memory until it is written, and each nested copy doubles what is written.
			if isLarger(r.body, maxValues) {
				p.warnOnce("values", fmt.Sprintf("the filters make more than %d values of a record: the filter number %d is "+
					"not applied", maxValues, i+1))
				r = before
			}
		}
		if keep {
			out = append(out, r)
		}
	}
	return out
}

// apply passes a record through a filter, and reports whether the record goes on.
func (p *pipeline) apply(i int, f *fluentbit.Filter, r *record) bool {
	switch {
	case f.Grep != nil:
		return grep(f.Grep, r.body)
	case f.Parser != nil:
		p.parseField(f.Parser, r)
	case f.RecordModifier != nil:
		modifyRecord(f.RecordModifier, r)
	case f.Throttle != nil:
		passes := p.throttles[i].allow(p.now())
		if f.Throttle.PrintStatus {
			p.throttles[i].report(p.log, i, p.now())
		}
		return passes
	case f.Nest != nil:
		nest(f.Nest, r)
	case f.Modify != nil:
		modify(f.Modify, r)
	case f.Kubernetes != nil:
		return p.kubernetes(f.Kubernetes, r)
	}
	return true
}

// warnOnce logs a message once for each key, of which there are few.
func (p *pipeline) warnOnce(key, message string) {
	if !p.warned[key] && len(p.warned) < 100 {
		p.warned[key] = true
		p.log.warn("filter", "%s", message)
	}
}

// grep reports whether a record is kept. In legacy mode the rules are applied in order, until one decides.
func grep(g *fluentbit.Grep, body object) bool {
	found := false
	for _, rule := range g.Rules {
		v, ok := body.value(rule.Key)
		s, isText := v.(string)
		found = ok && isText && rule.Regex.MatchString(s)
		switch {
		case g.Op == "legacy" && rule.Exclude && found:
			return false
		case g.Op == "legacy" && !rule.Exclude:
			return found
		case g.Op == "OR" && found, g.Op == "AND" && !found:
			return found != rule.Exclude
		}
	}
	if g.Op == "legacy" || len(g.Rules) == 0 {
		return true
	}
	return found != g.Rules[0].Exclude
}

// parseField puts the fields that a parser finds in a field in the place of the record. A record that no parser can
// read stays as it is.
func (p *pipeline) parseField(f *fluentbit.ParserFilter, r *record) {
	v, ok := r.body.value(f.Key)
	s, isText := text(v)
	if !ok || !isText {
		return
	}
	for _, parser := range f.Parsers {
		parsed, at, err := parse(parser, s, p.now())
		if err != nil {
			continue
		}
		var kept object
		for _, old := range r.body {
			isKey := len(f.Key) == 1 && old.key == f.Key[0].Key
			if isKey && f.PreserveKey || !isKey && f.ReserveData {
				if parsed.index(old.key) < 0 {
					kept = append(kept, old)
				}
			}
		}
		r.body = append(parsed, kept...)
		if !at.IsZero() {
			r.time = at
		}
		return
	}
}

func modifyRecord(f *fluentbit.RecordModifier, r *record) {
	listed := func(keys []string, key string) bool {
		return slices.ContainsFunc(keys, func(k string) bool {
			if start, ok := strings.CutSuffix(k, "*"); ok {
				return len(key) >= len(start) && strings.EqualFold(key[:len(start)], start)
			}
			return strings.EqualFold(k, key)
		})
	}
	body := make(object, 0, len(r.body)+len(f.Records)+1)
	for _, p := range r.body {
		if listed(f.Remove, p.key) || len(f.Allow) > 0 && !listed(f.Allow, p.key) {
			continue
		}
		body = append(body, p)
	}
	for _, kv := range f.Records {
		body = body.with(kv.Key, kv.Value)
	}
	if f.UUIDKey != "" {
		body = body.with(f.UUIDKey, uuid.NewString())
	}
	r.body = body
}

// rewrite returns the record with the tag of the first rule that matches it, and whether the old one is kept.
func rewrite(f *fluentbit.RewriteTag, r *record) (emitted record, ok, keep bool) {
	for _, rule := range f.Rules {
		v, _ := r.body.value(rule.Key)
		s, isText := v.(string)
		if !isText {
			continue
		}
		groups := rule.Regex.FindStringSubmatch(s)
		if groups == nil {
			continue
		}
		tag, _ := render(rule.Tag, r, groups)
		if tag == "" {
			return record{}, false, true
		}
		emitted = *r
		emitted.tag, emitted.rewrites = tag[:min(len(tag), 1024)], r.rewrites+1
		return emitted, true, rule.Keep
	}
	return record{}, false, true
}

// throttle counts records in the last intervals, as Fluent Bit does: a record is dropped while their average is at the
// rate.
type throttle struct {
	*fluentbit.Throttle
	panes    []int
	current  int
	total    int
	started  time.Time // the beginning of the current interval
	reported time.Time
}

func newThrottle(t *fluentbit.Throttle, now time.Time) *throttle {
	return &throttle{Throttle: t, panes: make([]int, t.Window), started: now, reported: now}
}

func (t *throttle) allow(now time.Time) bool {
	for n := 0; now.Sub(t.started) >= t.Interval; n++ {
		if n == len(t.panes) { // all of them are empty
			t.started = now
			break
		}
		t.started = t.started.Add(t.Interval)
		t.current = (t.current + 1) % len(t.panes)
		t.total -= t.panes[t.current]
		t.panes[t.current] = 0
	}
	if float64(t.total)/float64(len(t.panes)) >= t.Rate {
		return false
	}
	t.panes[t.current]++
	t.total++
	return true
}

func (t *throttle) report(log *processLog, i int, now time.Time) {
	if now.Sub(t.reported) < t.Interval {
		return
	}
	t.reported = now
	log.info(fmt.Sprintf("filter:throttle:throttle.%d", i), "%s: limit is %.2f per %v with window size of %d, "+
		"current rate is: %.2f per interval", now.UTC().Format(time.RFC3339), t.Rate, t.Interval, t.Window,
		float64(t.total)/float64(len(t.panes)))
}

func nest(f *fluentbit.Nest, r *record) {
	rename := func(key string) string {
		if f.AddPrefix != "" {
			return f.AddPrefix + key
		}
		return strings.TrimPrefix(key, f.RemovePrefix)
	}
	var stay, moved object
	matched := false
	for _, p := range r.body {
		inner, isObject := p.value.(object)
		switch {
		case f.Lift && p.key == f.Under && isObject:
			matched = true
			for _, q := range inner {
				moved = append(moved, pair{rename(q.key), q.value})
			}
		case !f.Lift && slices.ContainsFunc(f.Wildcards, func(w string) bool { return hasKey(w, p.key) }):
			matched = true
			moved = append(moved, pair{rename(p.key), p.value})
		default:
			stay = append(stay, p)
		}
	}
	switch {
	case !matched:
	case f.Lift:
		r.body = stay.merge(moved)
	default:
		r.body = stay.with(f.Under, moved)
	}
}

// hasKey reports whether a key is that of a wildcard, which may end with *.
func hasKey(wildcard, key string) bool {
	if start, ok := strings.CutSuffix(wildcard, "*"); ok {
		return strings.HasPrefix(key, start)
	}
	return wildcard == key
}

func modify(f *fluentbit.Modify, r *record) {
	for _, c := range f.Conditions {
		if !conditionHolds(c, r.body) {
			return
		}
	}
	for _, rule := range f.Rules {
		r.body = applyRule(rule, r.body)
	}
}

func conditionHolds(c fluentbit.Condition, body object) bool {
	matchingKeys := func() bool {
		return slices.ContainsFunc(body, func(p pair) bool { return c.KeyRegex.MatchString(p.key) })
	}
	matchingValues := func() bool {
		return !slices.ContainsFunc(body, func(p pair) bool {
			s, ok := p.value.(string)
			return c.KeyRegex.MatchString(p.key) && !(ok && c.ValueRegex.MatchString(s))
		})
	}
	v, exists := body.value(c.Key)
	s, isText := v.(string)
	switch c.Op {
	case "key_exists":
		return exists
	case "key_does_not_exist":
		return !exists
	case "a_key_matches":
		return matchingKeys()
	case "no_key_matches":
		return !matchingKeys()
	case "key_value_equals":
		return exists && isText && s == c.Value
	case "key_value_does_not_equal":
		return exists && !(isText && s == c.Value)
	case "key_value_matches":
		return exists && isText && c.ValueRegex.MatchString(s)
	case "key_value_does_not_match":
		return exists && !(isText && c.ValueRegex.MatchString(s))
	case "matching_keys_have_matching_values":
		return matchingValues()
	case "matching_keys_do_not_have_matching_values":
		return !matchingValues()
	}
	return false
}

func applyRule(rule fluentbit.ModifyRule, body object) object {
	matches := func(key string) bool {
		switch rule.Op {
		case "remove":
			return key == rule.Key
		case "remove_regex":
			return rule.Regex.MatchString(key)
		}
		return strings.HasPrefix(key, strings.TrimSuffix(rule.Key, "*"))
	}
	value, exists := body.get(rule.Key)
	_, taken := body.get(rule.Value)
	switch rule.Op {
	case "set":
		return body.with(rule.Key, rule.Value)
	case "add":
		if exists {
			return body
		}
		return body.with(rule.Key, rule.Value)
	case "remove", "remove_wildcard", "remove_regex":
		return slices.DeleteFunc(slices.Clone(body), func(p pair) bool { return matches(p.key) })
	case "rename", "hard_rename", "copy", "hard_copy":
		if !exists || rule.Key == rule.Value || taken && !strings.HasPrefix(rule.Op, "hard_") {
			return body
		}
		out := make(object, 0, len(body)+1)
		for _, p := range body {
			switch {
			case p.key == rule.Value:
			case p.key != rule.Key:
				out = append(out, p)
			case strings.HasSuffix(rule.Op, "rename"):
				out = append(out, pair{rule.Value, value})
			default:
				out = append(out, p, pair{rule.Value, value})
			}
		}
		return out
	case "move_to_start", "move_to_end":
		var moved, rest object
		for _, p := range body {
			if matches(p.key) {
				moved = append(moved, p)
			} else {
				rest = append(rest, p)
			}
		}
		if rule.Op == "move_to_start" {
			return append(moved, rest...)
		}
		return append(rest, moved...)
	}
	return body
}
